package cerne

/*
#include <cerne.h>
#include <stdlib.h>

int32_t cerneGoOnToken(void* user, uint32_t id, uint8_t* bytes, size_t num_bytes);

static cerne_status cerne_go_generate(cerne_context* context, cerne_sampler* sampler,
                                      cerne_tokenizer* tokenizer, uint32_t* prompt,
                                      size_t num_prompt, uint32_t* stop_ids, size_t num_stop_ids,
                                      uint32_t choice, uintptr_t user, uint32_t* ids,
                                      size_t capacity, size_t* num_ids) {
  return cerne_generate(context, sampler, tokenizer, prompt, num_prompt, stop_ids, num_stop_ids,
                        choice, (cerne_on_token)cerneGoOnToken, (void*)user, ids, capacity,
                        num_ids);
}
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// Options say how tokens are drawn; see docs/sampling.md. A number left at 0 has no effect, but for
// Temperature, where 0 is greedy.
type Options struct {
	Temperature       float64
	TopK              int
	TopP              float64 // 0 is 1
	MinP              float64
	RepetitionPenalty float64 // 0 is 1
	PresencePenalty   float64
	FrequencyPenalty  float64
	Bias              map[uint32]float64
	Seed              uint64
}

// Sampler draws tokens from logits.
type Sampler struct{ handle *C.cerne_sampler }

// NewSampler makes a sampler.
func NewSampler(o Options) (*Sampler, error) {
	s := &Sampler{}
	if err := call(func() C.cerne_status { return C.cerne_sampler_create(&s.handle) }); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(s, (*Sampler).Close)
	if o.TopP == 0 {
		o.TopP = 1
	}
	if o.RepetitionPenalty == 0 {
		o.RepetitionPenalty = 1
	}
	for name, value := range map[string]float64{
		"temperature": o.Temperature, "top_p": o.TopP, "min_p": o.MinP,
		"repetition_penalty": o.RepetitionPenalty, "presence_penalty": o.PresencePenalty,
		"frequency_penalty": o.FrequencyPenalty,
	} {
		key := []byte(name)
		if err := call(func() C.cerne_status {
			return C.cerne_sampler_set_number(s.handle, charsOf(key), C.size_t(len(key)), C.double(value))
		}); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]int64{"seed": int64(o.Seed), "top_k": int64(o.TopK)} {
		key := []byte(name)
		if err := call(func() C.cerne_status {
			return C.cerne_sampler_set_integer(s.handle, charsOf(key), C.size_t(len(key)), C.int64_t(value))
		}); err != nil {
			return nil, err
		}
	}
	for token, bias := range o.Bias {
		if err := call(func() C.cerne_status {
			return C.cerne_sampler_add_bias(s.handle, C.uint32_t(token), C.double(bias))
		}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close frees the sampler.
func (s *Sampler) Close() error {
	C.cerne_sampler_destroy(s.handle)
	s.handle = nil
	runtime.SetFinalizer(s, nil)
	return nil
}

// Accept remembers tokens for the penalties: of the prompt, or generated ones.
func (s *Sampler) Accept(ids []uint32, generated bool) error {
	defer runtime.KeepAlive(s)
	if s.handle == nil {
		return ErrClosed
	}
	flag := C.int32_t(0)
	if generated {
		flag = 1
	}
	return call(func() C.cerne_status {
		return C.cerne_sampler_accept(s.handle, idsOf(ids), C.size_t(len(ids)), flag)
	})
}

// Choose gives the token that follows logits, at a position of the sequence.
func (s *Sampler) Choose(logits []float32, choice uint32, position uint64) (uint32, error) {
	defer runtime.KeepAlive(s)
	if s.handle == nil {
		return 0, ErrClosed
	}
	var token C.uint32_t
	err := call(func() C.cerne_status {
		return C.cerne_sampler_choose(s.handle, floatsOf(logits), C.size_t(len(logits)),
			C.uint32_t(choice), C.uint64_t(position), &token)
	})
	return uint32(token), err
}

func floatsOf(values []float32) *C.float {
	if len(values) == 0 {
		return nil
	}
	return (*C.float)(unsafe.Pointer(&values[0]))
}

// Context holds sequences of tokens and the threads that compute.
type Context struct {
	handle *C.cerne_context
	vocab  int
}

// NewContext makes a context for a model. The options are those of cerne_context_set_integer:
// threads, capacity, max_sequences, batch_tokens.
func NewContext(m *Model, options map[string]int64) (*Context, error) {
	defer runtime.KeepAlive(m)
	vocab, err := m.Statistic("vocab_size")
	if err != nil {
		return nil, err
	}
	c := &Context{vocab: int(vocab)}
	if err := call(func() C.cerne_status { return C.cerne_context_create(m.handle, &c.handle) }); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(c, (*Context).Close)
	for name, value := range options {
		key := []byte(name)
		if err := call(func() C.cerne_status {
			return C.cerne_context_set_integer(c.handle, charsOf(key), C.size_t(len(key)), C.int64_t(value))
		}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Close ends the threads and frees the memory.
func (c *Context) Close() error {
	C.cerne_context_destroy(c.handle)
	c.handle = nil
	runtime.SetFinalizer(c, nil)
	return nil
}

// Start begins an empty sequence.
func (c *Context) Start() (uint64, error) {
	defer runtime.KeepAlive(c)
	if c.handle == nil {
		return 0, ErrClosed
	}
	var sequence C.uint64_t
	err := call(func() C.cerne_status { return C.cerne_context_start(c.handle, &sequence) })
	return uint64(sequence), err
}

// Drop forgets a sequence.
func (c *Context) Drop(sequence uint64) error {
	defer runtime.KeepAlive(c)
	if c.handle == nil {
		return ErrClosed
	}
	return call(func() C.cerne_status {
		return C.cerne_context_drop(c.handle, C.uint64_t(sequence))
	})
}

// Append reads tokens into a sequence and gives the logits after the last one.
func (c *Context) Append(sequence uint64, ids []uint32) ([]float32, error) {
	defer runtime.KeepAlive(c)
	if c.handle == nil {
		return nil, ErrClosed
	}
	if len(ids) == 0 {
		return nil, errors.New("cerne: there are no tokens to read")
	}
	sequences, wanted := make([]uint64, len(ids)), make([]byte, len(ids))
	for i := range sequences {
		sequences[i] = sequence
	}
	wanted[len(ids)-1] = 1
	logits := make([]float32, c.vocab)
	err := call(func() C.cerne_status {
		return C.cerne_context_decode(c.handle, (*C.uint64_t)(unsafe.Pointer(&sequences[0])), idsOf(ids),
			bytesOf(wanted), C.size_t(len(ids)), floatsOf(logits), C.size_t(len(logits)))
	})
	if err != nil {
		return nil, err
	}
	return logits, nil
}

// Request is what Generate answers.
type Request struct {
	Prompt    []uint32
	StopIDs   []uint32
	MaxTokens int
	Choice    uint32 // index of the answer when a prompt gets several
}

// listener is what the callback needs.
type listener struct {
	ctx context.Context
	out io.Writer
	err error
}

//export cerneGoOnToken
func cerneGoOnToken(user unsafe.Pointer, _ C.uint32_t, text *C.uint8_t, size C.size_t) C.int32_t {
	l := cgo.Handle(uintptr(user)).Value().(*listener)
	if l.err = l.ctx.Err(); l.err == nil && size > 0 && l.out != nil {
		_, l.err = l.out.Write(C.GoBytes(unsafe.Pointer(text), C.int(size)))
	}
	if l.err != nil {
		return 1
	}
	return 0
}

// Generate answers a prompt and writes the text to out (nil: none) as it comes; a character may come
// in two parts. It returns the ids of the answer, also beside an error of ctx or out, which end it.
func (c *Context) Generate(ctx context.Context, t *Tokenizer, s *Sampler, r Request, out io.Writer) ([]uint32, error) {
	defer runtime.KeepAlive([]any{c, t, s})
	if c.handle == nil || t.handle == nil || s.handle == nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.MaxTokens < 1 {
		return nil, errors.New("cerne: MaxTokens is below 1")
	}
	hears := &listener{ctx: ctx, out: out}
	user := cgo.NewHandle(hears)
	defer user.Delete()
	ids := make([]uint32, r.MaxTokens)
	var count C.size_t
	err := call(func() C.cerne_status {
		return C.cerne_go_generate(c.handle, s.handle, t.handle, idsOf(r.Prompt), C.size_t(len(r.Prompt)),
			idsOf(r.StopIDs), C.size_t(len(r.StopIDs)), C.uint32_t(r.Choice), C.uintptr_t(user),
			idsOf(ids), C.size_t(len(ids)), &count)
	})
	if hears.err != nil {
		err = hears.err
	}
	return ids[:count], err
}
