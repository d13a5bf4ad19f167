package demo

import (
	"context"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

var syncLogging = Scenario{
	Name:  "sync-logging",
	Title: "every request writes its log to a pipe whose reader pauses now and then",
	Cause: "sync-logging", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*payments).record",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/pay"}},
	Env:       []string{twoPs},
	Reader:    Reader{Pause: 110 * time.Millisecond, Every: 500 * time.Millisecond},
	New:       newPayments,
}

// payments writes down every payment.
type payments struct {
	log     *log.Logger
	receipt string // about 2 KB, as structured logs are
}

func newPayments(context.Context, map[string]string) (http.Handler, error) {
	p := &payments{log: log.New(os.Stderr, "", log.LstdFlags), receipt: strings.Repeat(`{"amount":100,"currency":"EUR"},`, 64)}
	return route("/pay", p.handle), nil
}

// record is the fault: the request waits until somebody reads the log.
func (p *payments) record(l line) { p.log.Printf("paid %s %s", l.SKU, p.receipt) }

func (p *payments) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	p.record(ls[0])
	reply(w, ls)
}
