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
	agenttest.PassUnderKernels(t, 4<<10, agenttest.RunArgs("TestVXLANCarriesOut|TestVXLANCarriesIn|TestGeneveCarries|TestIPIPCarries|TestRoutedCarries"+
		"|TestTranslatesWithoutChecksum|TestTranslatedApart|TestTranslatedEnds|TestNoNAT|TestLearnedAlone"+
		"|TestShadow|TestFuzzCarry|TestFuzzLearn|TestCarriesSibling|TestLearnsSibling|TestLeavesToDevice"+
		"|TestCarriesFromDevice|TestCarriesIPv6|TestTranslatesIPv6|TestTranslatedApartIPv6"+
		"|TestKeepsSumOfPacketIPv6|TestShadowIPv6|TestSlotsKnowAddresses|TestLearnsIPv6"+
		"|TestForgetsAddresses|TestNumbersBeginAgain|TestFuzzIPv6|TestFuzzLearnIPv6|TestTranslatedEndsIPv6|TestNoNATIPv6"))
}
