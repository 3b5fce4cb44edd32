package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

var (
	message = regexp.MustCompile(`^message (\w+) \{`)
	member  = regexp.MustCompile(`^\s+(?:optional |repeated )?(?:map<[^>]+>|[\w.]+) (\w+) = (\d+);`)
	// The .proto files read so far, by package: message, field, number.
	read = map[string]map[string]map[string]int{}
)

// numbers are the field numbers of a message, from the .proto file beside its Go type.
func numbers(t reflect.Type) map[string]int {
	path := t.PkgPath()
	if read[path] == nil {
		read[path] = parse(path)
	}
	return read[path][t.Name()]
}

func parse(path string) map[string]map[string]int {
	dir, err := exec.Command("go", "list", "-mod=readonly", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "generated.proto"))
	if err != nil {
		panic(err)
	}
	found, current := map[string]map[string]int{}, ""
	for line := range strings.SplitSeq(string(text), "\n") {
		if begin := message.FindStringSubmatch(line); begin != nil {
			current = begin[1]
			found[current] = map[string]int{}
		} else if field := member.FindStringSubmatch(line); field != nil {
			number, err := strconv.Atoi(field[2])
			if err != nil {
				panic(err)
			}
			found[current][field[1]] = number
		}
	}
	return found
}
