package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"hash"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// hashLen is how many characters of 5 bits a hash has: of 100,000 names two get the same one
	// once in 7,000 times, and then the second of them gets a longer one.
	hashLen = 9
	// maxListed bounds the table of names in bytes. Beyond it names are hashed and not listed.
	maxListed = 128 << 20
	// perEntry is about what a name costs in the two maps beside its bytes.
	perEntry = 200
)

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// names hashes names: one hash for a name, whatever member it stands in.
type names struct {
	mac    hash.Hash
	byName map[told]entry
	byHash map[string]string
	// count is how many different names were hashed since the member began which round counts.
	count    int64
	round    int
	listed   int
	unlisted int64
	// stays tells which names of functions stay, which are looked up all the time.
	stays map[string]bool
	// kept counts the different strings that stay since the member began, seen has in which round
	// each was last met.
	kept  int64
	seen  map[string]int
	ports [portRounds][256]byte
}

// told is a text and what it is the name of: what stands for an address has to be one, even if
// the same text is the name of a task, too.
type told struct {
	as   kind
	text string
}

type kind uint8

const (
	asName kind = iota
	asIP
	asPort
)

type entry struct {
	hash  string
	round int
}

func newNames(salt string) (*names, error) {
	key := sha256.Sum256([]byte(salt))
	if salt == "" {
		if _, err := rand.Read(key[:]); err != nil {
			return nil, fmt.Errorf("make a salt: %w", err)
		}
	}
	n := &names{mac: hmac.New(sha256.New, key[:]), byName: map[told]entry{}, byHash: map[string]string{}, stays: map[string]bool{}, seen: map[string]int{}}
	n.keyPorts()
	return n, nil
}

func (n *names) sum(domain, s string) []byte {
	n.mac.Reset()
	n.mac.Write([]byte(domain))
	n.mac.Write([]byte{0})
	n.mac.Write([]byte(s))
	return n.mac.Sum(nil)
}

// name returns the hash of a name: an identifier, exported if the name is.
func (n *names) name(s string) string {
	if s == "" {
		return ""
	}
	return n.hashed(asName, s, func(try int) string {
		prefix := "x"
		if c, _ := utf8.DecodeRuneInString(s); unicode.IsUpper(c) {
			prefix = "X"
		}
		return prefix + alphabet.EncodeToString(n.sum("name", s))[:min(hashLen+try, 50)]
	})
}

// hashed returns what stands for s: the first try that stands for nothing else.
func (n *names) hashed(as kind, s string, make func(try int) string) string {
	if e, ok := n.byName[told{as, s}]; ok {
		if e.round != n.round {
			n.count++
			n.byName[told{as, s}] = entry{e.hash, n.round}
		}
		return e.hash
	}
	n.count++
	out := make(0)
	for try := 1; try < 40; try++ {
		if was, taken := n.byHash[out]; !taken || was == s {
			break
		}
		out = make(try)
	}
	if n.listed+len(s)+len(out)+perEntry > maxListed {
		n.unlisted++
		return out
	}
	n.listed += len(s) + len(out) + perEntry
	s = strings.Clone(s)
	n.byName[told{as, s}], n.byHash[out] = entry{out, n.round}, s
	return out
}

// maxSeen bounds the strings of which is known that they were counted, and maxCached how long
// they are in bytes; longer ones count each time.
const maxSeen, maxCached = 200_000, 256

// keep counts a string that stays.
func (n *names) keep(s string) string {
	if s == "" || n.seen[s] == n.round {
		return s
	}
	n.kept++
	if len(s) > maxCached {
		return s
	}
	if len(n.seen) >= maxSeen {
		clear(n.seen)
	}
	n.seen[strings.Clone(s)] = n.round
	return s
}
