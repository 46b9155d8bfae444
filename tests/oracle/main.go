// Command oracle lets the scheduler of Kueue itself decide about what the lab's queue simulation is asked.
//
// It reads one scenario from each line, {"objects": [...], "cycles": [...]} with Kueue's own objects and what happens
// before each cycle, and writes one line with what Kueue's scheduler did in each. Nothing of the decision is done here:
// caches, queues and scheduler are Kueue's, behind the fake client of controller-runtime.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

type scenario struct {
	Objects []json.RawMessage `json:"objects"`
	Cycles  []Events          `json:"cycles"`
}

type answer struct {
	Cycles []*Decision `json:"cycles"`
	Error  string      `json:"error,omitempty"`
}

func main() {
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
	signal.Ignore(os.Interrupt) // Ctrl-C is for who asks, and still gets the answer; without input this ends
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		written, err := json.Marshal(judged(line))
		if err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		out.Write(append(written, '\n'))
		out.Flush()
	}
}

func judged(line []byte) answer {
	var given scenario
	if err := json.Unmarshal(line, &given); err != nil {
		return answer{Error: err.Error()}
	}
	decisions, err := Judge(given)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Cycles: decisions}
}
