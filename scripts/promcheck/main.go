// What Prometheus' own parsers say of /metrics, of rules and of expressions of a dashboard.
//
//	promcheck metrics FILE | rules FILE | expressions FILE (one a line)
package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	faults := 0
	fault := func(text any) {
		faults++
		fmt.Println(text)
	}
	file, err := os.Open(os.Args[2])
	if err != nil {
		fault(err)
		os.Exit(1)
	}
	parse := parser.NewParser(parser.Options{})
	switch os.Args[1] {
	case "metrics":
		problems, err := promlint.New(file).Lint()
		if err != nil {
			fault(err)
		}
		for _, problem := range problems {
			fault(problem.Metric + ": " + problem.Text)
		}
	case "rules":
		groups, errors := rulefmt.ParseFile(os.Args[2], false, model.UTF8Validation, parse, slog.Default())
		for _, err := range errors {
			fault(err)
		}
		if groups != nil {
			for _, group := range groups.Groups {
				fmt.Println(group.Name, len(group.Rules), "rules")
			}
		}
	case "expressions":
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if _, err := parse.ParseExpr(lines.Text()); err != nil {
				fault(lines.Text() + ": " + err.Error())
			}
		}
	}
	if faults > 0 {
		os.Exit(1)
	}
}
