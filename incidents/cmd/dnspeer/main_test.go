package main

import (
	"bytes"
	"testing"
)

// query asks for the address of shop.example.
var query = append([]byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0},
	"\x04shop\x07example\x00\x00\x01\x00\x01"...)

func TestTheAnswerRepeatsTheQuestion(t *testing.T) {
	want := append(append([]byte{0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, query[12:]...),
		0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1)
	if got := answer(query); !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	// What EDNS adds to a query is not of the question.
	extended := bytes.Clone(query)
	extended[11] = 1
	extended = append(extended, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0)
	if got := answer(extended); !bytes.Equal(got, want) {
		t.Errorf("with EDNS % x, want % x", got, want)
	}
}

func TestWhatIsNoQueryGetsNoAnswer(t *testing.T) {
	response := bytes.Clone(query)
	response[2] |= 0x80
	two := bytes.Clone(query)
	two[5] = 2
	for name, m := range map[string][]byte{"nothing": nil, "cut": query[:len(query)-1], "a response": response, "two questions": two} {
		if answer(m) != nil {
			t.Errorf("%s gets an answer", name)
		}
	}
}
