package redact

import (
	_ "embed"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// vocabulary are the words of whylate's own messages, of errors of operating systems and of
// package net, in lower case. A word of them stays in a text.
var vocabulary = lines(wordsText)

//go:embed words.txt
var wordsText string

// commands are whylate's own advice as far as it is not made of the vocabulary alone: hashed,
// nobody could follow it. asRoot is such advice with the id of the process, which stays.
var (
	commands = map[string]bool{
		"runtime.SetMutexProfileFraction(100)":                                                     true,
		"runtime.SetBlockProfileRate(1_000_000)":                                                   true,
		`import _ "net/http/pprof" and go http.ListenAndServe("localhost:6060", nil)`:              true,
		"ss -ltnp    # which ports listen here; in Kubernetes: kubectl port-forward pod/NAME 6060": true,
		"REDISCLI_AUTH=PASSWORD whylate ... --redis HOST:PORT, or redis://USER@HOST:PORT":          true,
		"redis-cli CONFIG SET slowlog-log-slower-than 10000":                                       true,
		"PGPASSWORD=PASSWORD whylate ... --postgres postgres://USER@HOST:PORT/DATABASE":            true,
	}
	asRoot = regexp.MustCompile(`^sudo whylate diagnose [0-9]{1,7}(; whylate doctor [0-9]{1,7} says what may be recorded| --probes '[a-z,-]+')?$`)
)

// text returns a sentence that may be given away: words of the vocabulary and short numbers
// stay, addresses and paths become what stands for them, every other word its hash.
func (r *redactor) text(s string) string {
	if commands[s] || asRoot.MatchString(s) {
		return r.keep(s)
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexFunc(s, unicode.IsSpace)
		if i < 0 {
			b.WriteString(r.word(s))
			break
		}
		b.WriteString(r.word(s[:i]))
		b.WriteByte(' ')
		_, n := utf8.DecodeRuneInString(s[i:])
		s = s[i+n:]
	}
	return b.String()
}

// figure is a number with its unit: no address, no id.
var figure = regexp.MustCompile(`^[+-]?[0-9]{1,3}([.,][0-9]{1,3})?(%|[a-zA-Z]{1,3})?$`)

func (r *redactor) word(s string) string {
	if from, to, ok := strings.Cut(s, "->"); ok {
		return r.word(from) + "->" + r.word(to)
	}
	core := strings.TrimLeft(s, `([{<"'`)
	front := s[:len(s)-len(core)]
	core = strings.TrimRight(core, `)]}>"'.,;:!?`)
	back := s[len(front)+len(core):]
	if strings.HasPrefix(core, "[") || strings.Contains(front, "[") { // [::1]:80
		if a, err := netip.ParseAddrPort(strings.TrimRight(s, ".,;:)")); err == nil {
			return r.address(a.String())
		}
	}
	return front + r.core(core) + back
}

func (r *redactor) core(s string) string {
	switch {
	case s == "":
		return s
	case strings.Contains(s, "://"):
		return r.url(s)
	case figure.MatchString(s):
		return s
	case s[0] == '/' && len(s) > 1, len(s) > 2 && s[1] == ':' && s[2] == '\\':
		return r.path(s)
	}
	var b strings.Builder // KEY=VALUE and lists: each may be an address
	for {
		i := strings.IndexAny(s, "=,;|")
		if i < 0 {
			b.WriteString(r.part(s))
			return b.String()
		}
		b.WriteString(r.part(s[:i]))
		b.WriteByte(s[i])
		s = s[i+1:]
	}
}

// digits are three numbers and more in a row, as in names that are made of an address, such as
// ip-10-20-30-40; release is a version of Go or of a kernel.
var (
	digits  = regexp.MustCompile(`[0-9]+[._:-]+[0-9]+[._:-]+[0-9]`)
	release = regexp.MustCompile(`^(go1|v?[2-9])\.[0-9]{1,3}\.[0-9]{1,3}$`)
)

func (r *redactor) part(s string) string {
	if _, err := netip.ParseAddr(s); err == nil {
		return r.address(s)
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return r.ip(p.Addr()).String() + "/" + strconv.Itoa(p.Bits())
	}
	if host, port, err := net.SplitHostPort(s); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return r.address(s)
		}
		if a, err := netip.ParseAddr(host); err == nil {
			return net.JoinHostPort(r.ip(a).String(), r.pieces(port))
		}
	}
	if release.MatchString(s) {
		return r.keep(s)
	}
	if digits.MatchString(s) {
		return r.name(s)
	}
	return r.pieces(s)
}

// pieces hashes the words that a word is made of, as far as they are not in the vocabulary.
func (r *redactor) pieces(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		n := run(s[i:])
		if n == 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		for k, w := range strings.Split(s[i:i+n], "_") {
			if k > 0 {
				b.WriteByte('_')
			}
			if vocabulary[strings.ToLower(w)] || len(w) < 3 && strings.Trim(w, "0123456789") == "" {
				b.WriteString(w)
			} else {
				b.WriteString(r.name(w))
			}
		}
		i += n
	}
	return b.String()
}

// number is a version as its numbers.
var number = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)*`)

// version returns a version that may be given away: its numbers, and behind them what is in
// the vocabulary. Names of builds may be a company's.
func (r *redactor) version(s string) string {
	head := number.FindString(s)
	return r.keep(head) + r.pieces(s[len(head):])
}
