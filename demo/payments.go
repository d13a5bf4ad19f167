package demo

import (
	"context"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
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
	Peers:     []Peer{{Name: "exchange", Reply: time.Millisecond}},
	Reader:    Reader{Pause: 110 * time.Millisecond, Every: 500 * time.Millisecond},
	New:       newPayments,
}

// The look-alike: the log is read as it comes, but the exchange is slow.
var paymentsExchange = Scenario{
	Name:  "payments-exchange",
	Title: "the program of sync-logging with a quick reader, and a slow peer asked under a lock",
	Cause: "lock-held-across-wait", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*payments).update",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/pay"}},
	Env:       []string{twoPs},
	Reader:    Reader{Every: time.Hour},
	Peers:     []Peer{{Name: "exchange", Reply: 60 * time.Millisecond}},
	New:       newPayments,
}

// payments writes down every payment.
type payments struct {
	log     *log.Logger
	receipt string // about 2 KB, as structured logs are

	client *http.Client
	peer   string
	mu     sync.Mutex
	rates  []line
}

func newPayments(ctx context.Context, peers map[string]string) (http.Handler, error) {
	p := &payments{
		log: log.New(os.Stderr, "", log.LstdFlags), receipt: strings.Repeat(`{"amount":100,"currency":"EUR"},`, 64),
		client: newClient(), peer: peers["exchange"],
	}
	if err := p.update(); err != nil {
		return nil, err
	}
	go p.keepUpdated(ctx)
	return route("/pay", p.handle), nil
}

func (p *payments) keepUpdated(ctx context.Context) {
	for interval(ctx, time.Second) {
		if err := p.update(); err != nil {
			p.log.Print(err)
		}
	}
}

// update asks for the rates under the mutex that every payment needs.
func (p *payments) update() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rates, err := fetch(p.client, p.peer+"/rates")
	if err == nil {
		p.rates = rates
	}
	return err
}

// rate returns the newest exchange rate.
func (p *payments) rate() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rates)
}

// record is the fault: the request waits until somebody reads the log.
func (p *payments) record(l line) { p.log.Printf("paid %s %s", l.SKU, p.receipt) }

func (p *payments) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	ls[0].Stock = p.rate()
	p.record(ls[0])
	reply(w, ls)
}
