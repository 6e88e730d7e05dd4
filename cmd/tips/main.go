// Command tips turns neural networks into anytime neural networks.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit statuses.
const (
	exitFailure = 1 // the work could not be done
	exitUsage   = 2 // the command line makes no sense

	exitInterrupted = 130 // as shells tell of a command that Ctrl-C ended
)

// run is the program: results go to stdout, everything else to stderr.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// What cobra adds by itself takes any argument; it shall not.
	root.InitDefaultCompletionCmd(args...)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return fmt.Errorf("completion: SHELL is missing; want one of %s", strings.Join(verbs(cmd), ", "))
				}
				return fmt.Errorf("completion: unknown shell %q; want one of %s", args[0], strings.Join(verbs(cmd), ", "))
			}
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return failed(cmd.Help()) }
		}
	}
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "tips: %s\n", oneLine(err))
	var s stopped
	if errors.As(err, &s) {
		return exitInterrupted
	}
	var f failure
	if errors.As(err, &f) {
		return exitFailure
	}
	return exitUsage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tips",
		Short: "Anytime neural networks: analyse, train, search, run",
		Long: `tips turns a neural network into an anytime neural network: one set of weights
that holds many subnetworks of different cost, so that a program can trade
accuracy for time, memory or energy while it runs.

MODEL is a name from the zoo (see 'tips models'), with settings if you like, as
in mobilenet_v2:width=1.4,data=cifar100, or the path of a description file.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted and saved.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("unknown command %q; want one of %s", args[0], strings.Join(verbs(cmd), ", "))
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return failed(cmd.Help()) },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd, err) })
	root.AddCommand(newModels(), newDescribe(), newAnalyze(), newTrain(), newEval(), newProfile(), newSearch(), newRun(), newExport(), newReport(), newReproduce(), newQuickstart(), newDevices(), newVersion())
	return root
}

// failure marks errors of the work itself. All other errors, cobra's own among
// them, are about the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// stopped marks work that was interrupted and can go on.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// failed marks err as a failure, if it is one.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// oneLine keeps an error on one line, whatever it quotes.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// exactly wants n arguments and says which.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) > len(names) {
			want := "no arguments"
			if len(names) > 0 {
				want = strings.Join(names, " ")
			}
			return fmt.Errorf("%s: unexpected argument %q; want %s", cmd.Name(), args[len(names)], want)
		}
		return fmt.Errorf("%s: %s is missing; see '%s --help'", cmd.Name(), names[len(args)], cmd.CommandPath())
	}
}

// verbs lists the commands below one.
func verbs(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// flagError says what a flag wants instead of what the Go library could not do.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
	}
	want := map[string]string{
		"int": "a whole number", "uint64": "a whole number, 0 or more", "float64": "a number", "bool": "true or false", "intSlice": "whole numbers with commas between", "float64Slice": "numbers with commas between",
	}[value.GetFlag().Value.Type()]
	return fmt.Errorf("--%s %q; want %s", value.GetFlag().Name, value.GetValue(), cmp.Or(want, value.GetFlag().Value.Type()))
}
