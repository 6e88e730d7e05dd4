.PHONY: build test bench fuzz generate figures lint ci

build: ## the binary, static
	CGO_ENABLED=0 go build -o tips ./cmd/tips

test:
	go test ./...

bench: ## the numbers of docs/analysis.md
	go test -run '^$$' -bench . -cpu 1 ./topology

fuzz: ## every fuzz target for a minute
	go test -run '^$$' -fuzz FuzzRead -fuzztime 1m -fuzzminimizetime 1s ./supernet
	go test -run '^$$' -fuzz FuzzNetworks -fuzztime 1m -fuzzminimizetime 1s ./supernet
	go test -run '^$$' -fuzz FuzzParseSubnet -fuzztime 1m ./supernet
	go test -run '^$$' -fuzz FuzzDecodeSubnet -fuzztime 1m ./supernet
	go test -run '^$$' -fuzz FuzzGradients -fuzztime 1m ./internal/kernel
	go test -run '^$$' -fuzz FuzzDecode -fuzztime 1m -fuzzminimizetime 1s ./frontier
	go test -run '^$$' -fuzz FuzzCache -fuzztime 1m -fuzzminimizetime 1s ./judge
	go test -run '^$$' -fuzz FuzzParseBudget -fuzztime 1m ./engine
	go test -run '^$$' -fuzz FuzzSystem -fuzztime 1m ./engine
	go test -run '^$$' -fuzz FuzzIDX -fuzztime 1m ./dataset
	go test -run '^$$' -fuzz FuzzReadPicture -fuzztime 1m ./dataset
	go test -run '^$$' -fuzz FuzzCIFAR -fuzztime 1m ./dataset
	go test -run '^$$' -fuzz FuzzTinyAnnotations -fuzztime 1m ./dataset
	go test -run '^$$' -fuzz FuzzRestore -fuzztime 1m ./train/method
	go test -run '^$$' -fuzz FuzzRecipe -fuzztime 1m -fuzzminimizetime 1s ./train
	go test -run '^$$' -fuzz FuzzCheckpoint -fuzztime 1m -fuzzminimizetime 1s ./train
	go test -run '^$$' -fuzz FuzzMetrics -fuzztime 1m -fuzzminimizetime 1s ./train
	go test -run '^$$' -fuzz FuzzRead -fuzztime 1m ./search/cost
	go test -run '^$$' -fuzz FuzzCSV -fuzztime 1m ./search/cost
	go test -run '^$$' -fuzz FuzzParseBudget -fuzztime 1m ./search/cost
	go test -run '^$$' -fuzz FuzzState -fuzztime 1m ./search
	go test -run '^$$' -fuzz FuzzTrace -fuzztime 1m ./demo
	go test -run '^$$' -fuzz FuzzTested -fuzztime 1m ./reproduce
	go test -run '^$$' -fuzz FuzzWidths -fuzztime 1m -fuzzminimizetime 1s ./reproduce

generate: ## the parts of docs/ that come from the program
	go generate ./...

figures: ## the plots of docs/figures.md
	go run ./cmd/tips reproduce draws --out docs/figures
	go run ./cmd/tips reproduce fig4a --out docs/figures
	go run ./cmd/tips reproduce fig5 --out docs/figures
	go run ./cmd/tips reproduce fig6 --out docs/figures

lint: ## needs golangci-lint
	golangci-lint run

ci:
	.ci/run
