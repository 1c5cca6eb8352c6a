// The golden test: an answer token by token, with all logits, and again in one call.
//
//	golden MODEL.gguf PROMPT SEED TEMPERATURE TOP_K TOP_P MAX_TOKENS LOGITS_FILE
//
// It prints what clients/c/golden.c prints, and Python must give the same.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"cerne"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

func line(ids []uint32) string {
	return strings.Trim(fmt.Sprint(ids), "[]")
}

func run(args []string) error {
	if len(args) != 8 {
		return errors.New("eight arguments are needed")
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	options := cerne.Options{Seed: seed}
	maxTokens := 0
	if _, err := fmt.Sscan(strings.Join(args[3:7], " "), &options.Temperature, &options.TopK,
		&options.TopP, &maxTokens); err != nil {
		return err
	}
	model, err := cerne.OpenModel(args[0], 1)
	if err != nil {
		return err
	}
	defer model.Close()
	tokenizer, err := cerne.OpenTokenizer(args[0])
	if err != nil {
		return err
	}
	defer tokenizer.Close()
	engine, err := cerne.NewContext(model, map[string]int64{"threads": 2})
	if err != nil {
		return err
	}
	defer engine.Close()
	sampler, err := cerne.NewSampler(options)
	if err != nil {
		return err
	}
	defer sampler.Close()
	prompt, err := tokenizer.EncodePrompt(args[1])
	if err != nil {
		return err
	}
	stop, err := tokenizer.Statistic("eos")
	if err != nil {
		return err
	}
	answer, logits, err := decode(engine, sampler, prompt, uint32(stop), maxTokens)
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[7], logits, 0o644); err != nil {
		return err
	}
	var text bytes.Buffer
	request := cerne.Request{Prompt: prompt, StopIDs: []uint32{uint32(stop)}, MaxTokens: maxTokens}
	again, err := engine.Generate(context.Background(), tokenizer, sampler, request, &text)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(answer, again) {
		return errors.New("Generate gave another answer")
	}
	fmt.Printf("%s\n%s\n%x\n", line(prompt), line(answer), text.Bytes())
	return nil
}

// decode draws an answer token by token; the logits before each token are float32, little-endian.
func decode(engine *cerne.Context, sampler *cerne.Sampler, prompt []uint32, stop uint32, maxTokens int) ([]uint32, []byte, error) {
	var answer []uint32
	var logits bytes.Buffer
	sequence, err := engine.Start()
	if err != nil {
		return nil, nil, err
	}
	defer engine.Drop(sequence)
	if err := sampler.Accept(prompt, false); err != nil {
		return nil, nil, err
	}
	for next := prompt; ; next = answer[len(answer)-1:] {
		row, err := engine.Append(sequence, next)
		if err != nil {
			return nil, nil, err
		}
		if err := binary.Write(&logits, binary.LittleEndian, row); err != nil {
			return nil, nil, err
		}
		id, err := sampler.Choose(row, 0, uint64(len(prompt)+len(answer)))
		if err != nil {
			return nil, nil, err
		}
		answer = append(answer, id)
		if err := sampler.Accept(answer[len(answer)-1:], true); err != nil {
			return nil, nil, err
		}
		if id == stop || len(answer) == maxTokens {
			return answer, logits.Bytes(), nil
		}
	}
}
