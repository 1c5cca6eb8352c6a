package cerne

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// open gives a model file's objects; the file is named by CERNE_TEST_MODEL.
func open(t *testing.T) (*Context, *Tokenizer, *Sampler) {
	t.Helper()
	path := os.Getenv("CERNE_TEST_MODEL")
	if path == "" {
		t.Skip("CERNE_TEST_MODEL names no GGUF file")
	}
	model, err := OpenModel(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := NewContext(model, map[string]int64{"threads": 1})
	if err != nil {
		t.Fatal(err)
	}
	// The context keeps what it needs.
	model.Close()
	tokenizer, err := OpenTokenizer(path)
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := NewSampler(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close(); tokenizer.Close(); sampler.Close() })
	return engine, tokenizer, sampler
}

func request(t *testing.T, tokenizer *Tokenizer) Request {
	t.Helper()
	prompt, err := tokenizer.EncodePrompt("Once upon a time")
	if err != nil {
		t.Fatal(err)
	}
	return Request{Prompt: prompt, MaxTokens: 20}
}

// canceller cancels when the text comes for the third time.
type canceller struct {
	cancel context.CancelFunc
	left   int
}

func (c *canceller) Write(text []byte) (int, error) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return len(text), nil
}

func TestCancellationKeepsWhatCame(t *testing.T) {
	engine, tokenizer, sampler := open(t)
	r := request(t, tokenizer)
	whole, err := engine.Generate(context.Background(), tokenizer, sampler, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	part, err := engine.Generate(ctx, tokenizer, sampler, r, &canceller{cancel, 3})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if len(part) < 3 || len(part) >= len(whole) {
		t.Fatalf("%d of %d tokens", len(part), len(whole))
	}
	for i, id := range part {
		if whole[i] != id {
			t.Fatalf("token %d differs", i)
		}
	}
	if _, err := engine.Generate(ctx, tokenizer, sampler, r, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// The place of the cancelled sequence is free again.
	if _, err := engine.Generate(context.Background(), tokenizer, sampler, r, nil); err != nil {
		t.Fatal(err)
	}
}

type broken struct{}

var errBroken = errors.New("broken pipe")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriterThatFailsEndsTheAnswer(t *testing.T) {
	engine, tokenizer, sampler := open(t)
	_, err := engine.Generate(context.Background(), tokenizer, sampler, request(t, tokenizer), broken{})
	if !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
}

func TestTextIsWhatTheIdsDecodeTo(t *testing.T) {
	engine, tokenizer, sampler := open(t)
	var text bytes.Buffer
	ids, err := engine.Generate(context.Background(), tokenizer, sampler, request(t, tokenizer), &text)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := tokenizer.Decode(ids)
	if err != nil || !bytes.Equal(decoded, text.Bytes()) {
		t.Fatalf("%q and %q, %v", decoded, text.Bytes(), err)
	}
}

func TestRefusals(t *testing.T) {
	engine, tokenizer, sampler := open(t)
	var refused *Error
	_, err := engine.Generate(context.Background(), tokenizer, sampler, Request{Prompt: []uint32{1 << 30}, MaxTokens: 1}, nil)
	if !errors.As(err, &refused) || refused.Status != 1 {
		t.Fatalf("got %v", err)
	}
	if _, err := NewSampler(Options{Temperature: -1}); err == nil || !strings.Contains(err.Error(), "temperature") {
		t.Fatalf("got %v", err)
	}
	if _, err := tokenizer.Special("<|none|>"); err == nil {
		t.Fatal("an unknown token was found")
	}
	if _, err := OpenModel("none.gguf", 1); err == nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Fatalf("got %v", err)
	}
	sampler.Close()
	if _, err := engine.Generate(context.Background(), tokenizer, sampler, request(t, tokenizer), nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if _, err := sampler.Choose([]float32{0}, 0, 0); !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v", err)
	}
}
