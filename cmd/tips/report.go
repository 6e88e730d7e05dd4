package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tips/report"
)

func newReport() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Make a page of a run: graph, curves, frontier",
		Long: `Make one page of what is in the folder of a training run: the network and its
important path, the curves, the frontier that 'tips search' found, what it takes to
store. The page is a single HTML file that needs nothing else.`,
		Example: `  tips report runs/quick-tips-1
  tips report runs/quick-tips-1 --out page.html`,
		Args: exactly("RUN"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := report.Open(args[0])
			if err != nil {
				return failed(err)
			}
			for _, text := range r.LeftOut {
				fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s\n", text)
			}
			pictures := filepath.Join(args[0], picturesFolder)
			if _, err := os.Stat(pictures); err != nil {
				pictures = ""
			}
			r.Next = r.Commands(self(os.Args[0]), pictures)
			if out == "" {
				out = filepath.Join(args[0], report.File)
			}
			if err := writeFile(out, r.Write); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", out)
			return failed(err)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write (default RUN/"+report.File+")")
	_ = cmd.MarkFlagFilename("out", "html")
	return cmd
}
