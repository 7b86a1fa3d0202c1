package bpf_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// The verifiers of other kernels accept the programs, which do there what they do here.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 2<<10, agenttest.RunArgs("TestVXLANCarriesOut|TestVXLANCarriesIn|TestGeneveCarries|TestIPIPCarries|TestRoutedCarries|TestTranslatesWithoutChecksum|TestTranslatedApart|TestTranslatedEnds|TestNoNAT|TestLearnedAlone|TestShadow|TestFuzzCarry|TestFuzzLearn|TestCarriesSibling|TestLearnsSibling|TestLearnsIPv6|TestTranslatedApartIPv6|TestTranslatedEndsIPv6|TestKeepsSumOfPacketIPv6|TestNoNATIPv6|TestShadowIPv6"))
}
