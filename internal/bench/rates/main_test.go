package rates

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }
