package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// newHold is the process that keeps a file open for as long as a number in it
// shall hold. It is hidden: people have no use for it.
func newHold(*Env) *cobra.Command {
	var (
		file   string
		number int
	)
	cmd := &cobra.Command{
		Use:    "hold --file FILE --number N",
		Short:  "Keep a file open, so that the number in it holds",
		Long:   "Keep a file open that was handed over, such as /dev/cpu_dma_latency, until it is undone.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := setting.HoldDone(file)
			if err != nil || !filepath.IsAbs(file) {
				return verr.New(verr.Usage, "cannot hold a number", "no file was handed over", "use venturi knob set cpu.dma_latency, which starts this by itself")
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the file that was handed over")
	cmd.Flags().IntVar(&number, "number", 0, "the number that was written into it")
	return cmd
}
