// A conversation with a GGUF model: one line in, one answer out, until the input ends. Ctrl-C ends
// an answer.
//
//	chat [-temperature T] [-seed N] [-threads N] MODEL.gguf
//
// The conversation is written with the model's own control tokens: ChatML, cerne's or Gemma's. Every
// turn reads the whole conversation again, which keeps this program short.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"cerne"
)

// style says how a turn begins and ends; end is a control token.
type style struct {
	user, afterUser, assistant, afterAssistant, end, behindEnd string
}

var styles = []style{
	{"<|im_start|>", "user\n", "<|im_start|>", "assistant\n", "<|im_end|>", "\n"},
	{"<|user|>", "", "<|assistant|>", "", "<|end|>", ""},
	{"<start_of_turn>", "user\n", "<start_of_turn>", "model\n", "<end_of_turn>", "\n"},
}

const maxContext, maxAnswer = 4096, 512

func main() {
	temperature := flag.Float64("temperature", 0, "divides the logits; 0 is greedy")
	seed := flag.Uint64("seed", 0, "key of the random numbers")
	threads := flag.Int("threads", 2, "threads that compute; no answer depends on them")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *threads, cerne.Options{Temperature: *temperature, Seed: *seed}); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

func run(path string, threads int, options cerne.Options) error {
	model, err := cerne.OpenModel(path, threads)
	if err != nil {
		return err
	}
	defer model.Close()
	tokenizer, err := cerne.OpenTokenizer(path)
	if err != nil {
		return err
	}
	defer tokenizer.Close()
	limit, err := model.Statistic("context")
	if err != nil {
		return err
	}
	if limit > maxContext {
		limit = maxContext
	}
	engine, err := cerne.NewContext(model, map[string]int64{
		"threads": int64(threads), "capacity": int64(limit)})
	if err != nil {
		return err
	}
	defer engine.Close()
	sampler, err := cerne.NewSampler(options)
	if err != nil {
		return err
	}
	defer sampler.Close()

	talk := &talk{tokenizer: tokenizer}
	if err := talk.begin(); err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); input.Scan(); fmt.Print("> ") {
		if err := talk.ask(input.Text()); err != nil {
			return err
		}
		room := int(limit) - len(talk.ids)
		if room < 1 {
			return fmt.Errorf("the conversation fills the context of %d tokens", limit)
		}
		if room > maxAnswer {
			room = maxAnswer
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		answer, err := engine.Generate(ctx, tokenizer, sampler,
			cerne.Request{Prompt: talk.ids, StopIDs: tokenizer.StopIDs(), MaxTokens: room}, os.Stdout)
		stop()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if err := talk.answered(answer); err != nil {
			return err
		}
		fmt.Println()
	}
	fmt.Println()
	return input.Err()
}

// talk is a conversation as ids.
type talk struct {
	tokenizer            *cerne.Tokenizer
	style                style
	user, assistant, end uint32
	ids                  []uint32
}

func (t *talk) begin() error {
	for _, one := range styles {
		user, err := t.tokenizer.Special(one.user)
		if err != nil {
			continue
		}
		end, err := t.tokenizer.Special(one.end)
		if err != nil {
			continue
		}
		assistant, err := t.tokenizer.Special(one.assistant)
		if err != nil {
			continue
		}
		t.style, t.user, t.assistant, t.end = one, user, assistant, end
		// Whatever begins a text for this model.
		t.ids, err = t.tokenizer.EncodePrompt("")
		return err
	}
	return errors.New("the model has the control tokens of no known conversation")
}

func (t *talk) text(text string) error {
	ids, err := t.tokenizer.Encode(text)
	t.ids = append(t.ids, ids...)
	return err
}

func (t *talk) ask(question string) error {
	t.ids = append(t.ids, t.user)
	for _, text := range []string{t.style.afterUser, question} {
		if err := t.text(text); err != nil {
			return err
		}
	}
	t.ids = append(t.ids, t.end)
	if err := t.text(t.style.behindEnd); err != nil {
		return err
	}
	t.ids = append(t.ids, t.assistant)
	return t.text(t.style.afterAssistant)
}

func (t *talk) answered(ids []uint32) error {
	t.ids = append(t.ids, ids...)
	// The next turn begins behind the end of this one, even where the answer was cut short.
	if len(ids) == 0 || ids[len(ids)-1] != t.end {
		t.ids = append(t.ids, t.end)
	}
	return t.text(t.style.behindEnd)
}
