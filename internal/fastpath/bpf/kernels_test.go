package bpf_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// guestTests are those that compare programs with a reference, packet by packet, and those of what a kernel adds.
const guestTests = "TestFuzzCarry|TestFuzzLearn|TestFuzzLearnIPv6|TestFuzzIPv6|TestFuzzSibling|TestFuzzSiblingIPv6" +
	"|TestGeneveCarries|TestIPIPCarries|TestLeavesToDevice|TestShadow|TestTranslatedEnds|TestTranslatedEndsIPv6"

// moreGuestTests run there when all do.
const moreGuestTests = "TestVXLANCarriesOut|TestVXLANCarriesIn|TestRoutedCarries" +
	"|TestTranslatesWithoutChecksum|TestTranslatedApart|TestNoNAT|TestLearnedAlone" +
	"|TestCarriesSibling|TestLearnsSibling|TestCarriesFromDevice|TestCarriesIPv6|TestTranslatesIPv6|TestTranslatedApartIPv6" +
	"|TestKeepsSumOfPacketIPv6|TestShadowIPv6|TestSlotsKnowAddresses|TestLearnsIPv6" +
	"|TestForgetsAddresses|TestNumbersBeginAgain|TestNoNATIPv6"

// The verifiers of other kernels accept the programs, which do there what they do here.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 4<<10, agenttest.RunArgs(guestTests, moreGuestTests))
}
