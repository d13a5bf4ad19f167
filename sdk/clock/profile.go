package clock

import (
	"encoding/binary"
	"errors"
	"strings"
)

// profile is what Pays wants of a profile: github.com/google/pprof/proto/profile.proto.
type profile struct {
	samples   []sample
	locations map[uint64][]uint64 // functions of a location, innermost first
	functions map[uint64]string
}

type sample struct {
	locations []uint64 // leaf first
	value     float64
}

var errCut = errors.New("it is cut or damaged")

// parse reads a profile that is not compressed.
func parse(data []byte) (*profile, error) {
	p := &profile{locations: map[uint64][]uint64{}, functions: map[uint64]string{}}
	var (
		texts   []string
		named   = map[uint64]uint64{} // functions' names, by number of text
		types   []uint64              // names of the values of a sample
		samples [][]uint64            // values
	)
	err := fields(data, func(number int, value uint64, body []byte) error {
		switch number {
		case 1: // sample_type
			types = append(types, one(body, 1))
		case 2: // sample
			locations, err := numbers(body, 1)
			if err != nil {
				return err
			}
			values, err := numbers(body, 2)
			if err != nil {
				return err
			}
			p.samples = append(p.samples, sample{locations: locations})
			samples = append(samples, values)
		case 4: // location
			var lines []uint64
			err := fields(body, func(number int, _ uint64, line []byte) error {
				if number == 4 {
					lines = append(lines, one(line, 1))
				}
				return nil
			})
			if err != nil {
				return err
			}
			p.locations[one(body, 1)] = lines
		case 5: // function
			named[one(body, 1)] = one(body, 2)
		case 6: // string_table
			texts = append(texts, string(body))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(types) == 0 {
		return nil, errors.New("it has no values")
	}
	text := func(i uint64) string {
		if i < uint64(len(texts)) {
			return texts[i]
		}
		return ""
	}
	kind := 0
	for i, t := range types {
		if text(t) == "cpu" {
			kind = i
		}
	}
	if t := text(types[kind]); t != "cpu" && t != "samples" {
		return nil, errors.New("its values are " + strings.ToValidUTF8(t[:min(len(t), 32)], "?"))
	}
	for i, values := range samples {
		if kind >= len(values) {
			return nil, errCut
		}
		p.samples[i].value = max(0, float64(int64(values[kind])))
	}
	for f, n := range named {
		p.functions[f] = text(n)
	}
	return p, nil
}

// fields calls each for every field of a message: body is that of a field with a length,
// value that of the others.
func fields(message []byte, each func(number int, value uint64, body []byte) error) error {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return errCut
		}
		message = message[n:]
		var value uint64
		var body []byte
		switch key & 7 {
		case 0:
			if value, n = binary.Uvarint(message); n <= 0 {
				return errCut
			}
		case 1:
			n = 8
		case 2:
			length, m := binary.Uvarint(message)
			if m <= 0 || length > uint64(len(message)-m) {
				return errCut
			}
			n = m + int(length)
			body = message[m:n]
		case 5:
			n = 4
		default:
			return errCut
		}
		if n > len(message) {
			return errCut
		}
		message = message[n:]
		if err := each(int(key>>3), value, body); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the numbers of a repeated field, packed or not.
func numbers(message []byte, field int) (all []uint64, err error) {
	err = fields(message, func(number int, value uint64, body []byte) error {
		if number != field {
			return nil
		}
		if body == nil {
			all = append(all, value)
			return nil
		}
		for len(body) > 0 {
			v, n := binary.Uvarint(body)
			if n <= 0 {
				return errCut
			}
			all, body = append(all, v), body[n:]
		}
		return nil
	})
	return all, err
}

// one returns the number in a field, 0 if there is none.
func one(message []byte, field int) uint64 {
	var v uint64
	fields(message, func(number int, value uint64, body []byte) error {
		if number == field && body == nil {
			v = value
		}
		return nil
	})
	return v
}
