// Package cerne runs language models on the native core of cerne: the same tokens as from Python and
// C for the same model, prompt, options and seed.
//
// Model, Tokenizer, Context and Sampler own memory of the core. Close frees it at once; otherwise the
// garbage collector does. A Model and a Tokenizer may be used by many goroutines at a time, a Context
// and a Sampler by one. The compiler and the linker find the core by CGO_CFLAGS and CGO_LDFLAGS
// (-IFOLDER/include, -LFOLDER/lib -Wl,-rpath,FOLDER/lib).
package cerne

/*
#cgo LDFLAGS: -lcerne
#include <cerne.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// ErrClosed is returned by every method of a closed object.
var ErrClosed = errors.New("cerne: the object is closed")

// Error is a refusal by the core.
type Error struct {
	Status  int    // of cerne.h
	Message string // one sentence
}

func (e *Error) Error() string { return "cerne: " + e.Message }

// Stopped is the status of a call that a callback or another goroutine ended.
const Stopped = int(C.CERNE_STOPPED)

// call runs f and fetches the sentence of a failure, which belongs to the thread.
func call(f func() C.cerne_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := f()
	if status == C.CERNE_OK {
		return nil
	}
	var length C.size_t
	text := C.cerne_last_error(&length)
	return &Error{int(status), C.GoStringN(text, C.int(length))}
}

// bytesOf gives C the bytes of a string or slice during one call.
func bytesOf(text []byte) *C.uint8_t {
	if len(text) == 0 {
		return nil
	}
	return (*C.uint8_t)(unsafe.Pointer(&text[0]))
}

func charsOf(text []byte) *C.char { return (*C.char)(unsafe.Pointer(bytesOf(text))) }

func idsOf(ids []uint32) *C.uint32_t {
	if len(ids) == 0 {
		return nil
	}
	return (*C.uint32_t)(unsafe.Pointer(&ids[0]))
}

// Version is the version of the interface of the core that is loaded.
func Version() int { return int(C.cerne_abi_version()) }

// Arithmetic names the arithmetic: the same name, model and tokens give the same bits everywhere.
func Arithmetic() string { return C.GoString(C.cerne_arithmetic()) }

// Model is a model in memory. It never changes.
type Model struct{ handle *C.cerne_model }

// OpenModel loads a GGUF file on a number of threads.
func OpenModel(path string, threads int) (*Model, error) {
	name := []byte(path)
	if threads < 0 {
		threads = 0
	}
	m := &Model{}
	err := call(func() C.cerne_status {
		return C.cerne_model_open(charsOf(name), C.size_t(len(name)), C.uint32_t(threads), nil, nil,
			&m.handle)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// Close frees the model when the last of its contexts is closed.
func (m *Model) Close() error {
	C.cerne_model_destroy(m.handle)
	m.handle = nil
	runtime.SetFinalizer(m, nil)
	return nil
}

// Statistic is a number of the model: vocab_size, context, layers, width, weight_bytes, ...
func (m *Model) Statistic(name string) (uint64, error) {
	defer runtime.KeepAlive(m)
	if m.handle == nil {
		return 0, ErrClosed
	}
	key, value := []byte(name), C.uint64_t(0)
	err := call(func() C.cerne_status {
		return C.cerne_model_statistic(m.handle, charsOf(key), C.size_t(len(key)), &value)
	})
	return uint64(value), err
}

// Tokenizer turns text into ids and back.
type Tokenizer struct{ handle *C.cerne_tokenizer }

// OpenTokenizer reads the tokenizer inside a GGUF file.
func OpenTokenizer(path string) (*Tokenizer, error) {
	name := []byte(path)
	t := &Tokenizer{}
	err := call(func() C.cerne_status {
		return C.cerne_tokenizer_open_gguf(charsOf(name), C.size_t(len(name)), &t.handle)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	runtime.SetFinalizer(t, (*Tokenizer).Close)
	return t, nil
}

// Close frees the tokenizer.
func (t *Tokenizer) Close() error {
	C.cerne_tokenizer_destroy(t.handle)
	t.handle = nil
	runtime.SetFinalizer(t, nil)
	return nil
}

// Encode gives the ids of a text. Control tokens never occur, and nothing is added around it.
func (t *Tokenizer) Encode(text string) ([]uint32, error) {
	defer runtime.KeepAlive(t)
	if t.handle == nil {
		return nil, ErrClosed
	}
	// A space before the text may make one id more than there are bytes.
	data, ids := []byte(text), make([]uint32, 2*len(text)+1)
	var count C.size_t
	err := call(func() C.cerne_status {
		return C.cerne_tokenizer_encode(t.handle, bytesOf(data), C.size_t(len(data)), idsOf(ids),
			C.size_t(len(ids)), &count)
	})
	if err != nil {
		return nil, err
	}
	return ids[:count], nil
}

// EncodePrompt gives the ids of a text as the model expects one, with its begin and end tokens.
func (t *Tokenizer) EncodePrompt(text string) ([]uint32, error) {
	ids, err := t.Encode(text)
	if err != nil {
		return nil, err
	}
	if add, _ := t.Statistic("add_bos"); add == 1 {
		bos, err := t.Statistic("bos")
		if err != nil {
			return nil, err
		}
		ids = append([]uint32{uint32(bos)}, ids...)
	}
	if add, _ := t.Statistic("add_eos"); add == 1 {
		eos, err := t.Statistic("eos")
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(eos))
	}
	return ids, nil
}

// Decode gives the bytes of ids; control tokens give nothing.
func (t *Tokenizer) Decode(ids []uint32) ([]byte, error) {
	defer runtime.KeepAlive(t)
	if t.handle == nil {
		return nil, ErrClosed
	}
	data := make([]byte, 8*len(ids)+64)
	for {
		var size C.size_t
		err := call(func() C.cerne_status {
			return C.cerne_tokenizer_decode(t.handle, idsOf(ids), C.size_t(len(ids)), bytesOf(data),
				C.size_t(len(data)), &size)
		})
		var refused *Error
		if errors.As(err, &refused) && refused.Status == int(C.CERNE_BUFFER_TOO_SMALL) {
			data = make([]byte, size)
			continue
		}
		if err != nil {
			return nil, err
		}
		return data[:size], nil
	}
}

// Special is the id of a control token, such as "<|im_end|>".
func (t *Tokenizer) Special(name string) (uint32, error) {
	defer runtime.KeepAlive(t)
	if t.handle == nil {
		return 0, ErrClosed
	}
	key, id := []byte(name), C.uint32_t(0)
	err := call(func() C.cerne_status {
		return C.cerne_tokenizer_special(t.handle, charsOf(key), C.size_t(len(key)), &id)
	})
	return uint32(id), err
}

// Statistic is a number of the tokenizer: vocab_size; bos, eos, pad, end_of_turn (-1: none);
// add_bos, add_eos.
func (t *Tokenizer) Statistic(name string) (int64, error) {
	defer runtime.KeepAlive(t)
	if t.handle == nil {
		return 0, ErrClosed
	}
	key, value := []byte(name), C.int64_t(0)
	err := call(func() C.cerne_status {
		return C.cerne_tokenizer_statistic(t.handle, charsOf(key), C.size_t(len(key)), &value)
	})
	return int64(value), err
}

// StopIDs are the ids that end an answer of the model: the ends of a document and of a turn.
func (t *Tokenizer) StopIDs() []uint32 {
	var stops []uint32
	for _, name := range []string{"eos", "end_of_turn"} {
		if id, err := t.Statistic(name); err == nil && id >= 0 {
			stops = append(stops, uint32(id))
		}
	}
	return stops
}
