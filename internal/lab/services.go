package lab

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/verr"
)

// MaxServices is how many Services the rules have addresses for.
const MaxServices = 60000

func checkServices(n int) error {
	if n < 0 || n > MaxServices {
		return verr.New(verr.Usage, fmt.Sprintf("cannot write the rules of %d Services", n),
			"the number is out of range", fmt.Sprintf("give a number from 0 to %d", MaxServices))
	}
	return nil
}

func (b *builder) services(_ context.Context, o Options) error {
	return nil
}
