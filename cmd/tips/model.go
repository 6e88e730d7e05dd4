package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tips/supernet"
	"tips/supernet/zoo"
)

// openModel finds what MODEL names: a description file, or a network of the zoo.
func openModel(model string) (*supernet.Network, error) {
	if !looksLikeFile(model) {
		n, err := zoo.New(model)
		if err != nil {
			return nil, fmt.Errorf("%w; or give the path of a description file (./NAME or NAME.json)", err)
		}
		return n, nil
	}
	f, err := os.Open(model)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, failed(fmt.Errorf("model %s: %w", model, err))
	}
	defer f.Close()
	n, err := supernet.Read(f)
	if err != nil {
		return nil, failed(fmt.Errorf("model %s: %w", model, err))
	}
	return n, nil
}

// looksLikeFile tells a path from a name of the zoo, none of which has a slash
// or ends in .json.
func looksLikeFile(model string) bool {
	return strings.ContainsRune(model, os.PathSeparator) || strings.HasSuffix(model, ".json")
}

// modelFlag adds --model, for verbs about something else than a model.
func modelFlag(cmd *cobra.Command, model *string) {
	cmd.Flags().StringVar(model, "model", "mobilenet_v2", "network: a zoo name or a description file")
	_ = cmd.RegisterFlagCompletionFunc("model", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeModel(cmd, nil, typed)
	})
}

// completeModel offers the zoo, and files, for a MODEL argument.
func completeModel(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, m := range zoo.Models() {
		names = append(names, cobra.CompletionWithDesc(m.Name, m.Summary))
	}
	return names, cobra.ShellCompDirectiveDefault
}
