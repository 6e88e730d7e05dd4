package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tips/supernet"
	"tips/supernet/zoo"
)

func newModels() *cobra.Command {
	var asJSON bool
	var data string
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the networks of the zoo with their costs",
		Long: `List the networks of the zoo: multiply-accumulates and parameters of the whole
network, and what of it is elastic.`,
		Example: `  tips models
  tips models --data cifar100
  tips models --json`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := listModels(data)
			if err != nil {
				return err
			}
			if asJSON {
				return failed(writeJSON(cmd.OutOrStdout(), list))
			}
			return failed(printModels(cmd.OutOrStdout(), list))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().StringVar(&data, "data", "imagenet", "data set the image networks are built for: "+strings.Join(dataNames(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("data", cobra.FixedCompletions(dataNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func dataNames() []string {
	var names []string
	for _, d := range zoo.DataSets() {
		names = append(names, d.Name)
	}
	return names
}

// modelRow is a network of the zoo in the output of tips models.
type modelRow struct {
	Model    string         `json:"model"`
	Summary  string         `json:"summary"`
	Input    supernet.Shape `json:"input"`
	MACs     int64          `json:"macs"`
	Params   int64          `json:"params"`
	Groups   int            `json:"groups"`
	Blocks   int            `json:"blocks"`
	Smallest int64          `json:"smallest_macs"` // of the subnetwork with every group at its minimum
	Settings []string       `json:"settings"`
}

func listModels(data string) ([]modelRow, error) {
	var list []modelRow
	for _, m := range zoo.Models() {
		reference := m.Name
		if m.TakesData() && data != zoo.DataSets()[0].Name {
			reference += ":data=" + data
		}
		n, err := zoo.New(reference)
		if err != nil {
			return nil, err
		}
		full, err := n.View(supernet.Subnet{}, n.Input())
		if err != nil {
			return nil, failed(err)
		}
		smallest, err := n.View(n.Smallest(), n.Input())
		if err != nil {
			return nil, failed(err)
		}
		costs := full.Costs()
		list = append(list, modelRow{
			Model: reference, Summary: m.Summary, Input: n.Input(),
			MACs: costs.MACs, Params: costs.Params,
			Groups: len(n.Groups()), Blocks: len(n.Blocks()), Smallest: smallest.Costs().MACs,
			Settings: m.Settings,
		})
	}
	return list, nil
}

func printModels(w io.Writer, list []modelRow) error {
	t := newTable(w, "MODEL", "INPUT", "MACS", "SMALLEST", "PARAMETERS", "WIDTH GROUPS", "BLOCKS", "")
	for _, m := range list {
		t.row(m.Model, m.Input.String(), count(m.MACs), count(m.Smallest), count(m.Params), fmt.Sprint(m.Groups), fmt.Sprint(m.Blocks), m.Summary)
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nMACs are multiply-accumulates for one input, the number that papers call FLOPs;\nSMALLEST has every width group at its minimum. Settings, as in %s:\n", "mobilenet_v2:width=1.4,data=cifar100")
	for _, m := range list {
		name, _, _ := strings.Cut(m.Model, ":")
		fmt.Fprintf(w, "  %-16s %s\n", name, strings.Join(m.Settings, ", "))
	}
	_, err := fmt.Fprintf(w, "data is one of %s\n", strings.Join(dataNames(), ", "))
	return err
}
