package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
)

var growth = Scenario{
	Name:  "growth",
	Title: "3 % of the requests collect 150,000 rows, and nobody says so beforehand",
	Cause: "growth", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*exports).collect",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/export"}},
	Env:       []string{twoPs, "GOGC=3200"},
	New:       newExports,
}

// exports are lists of bookings that customers take home.
type exports struct{}

// row is one booking.
type row struct {
	day, account int32
	cents        int64
	terms        [6]int64
}

func newExports(context.Context, map[string]string) (http.Handler, error) {
	return route("/export", (&exports{}).handle), nil
}

// collect is the fault: it begins with room for nothing, and moves what it has each
// time that more is needed.
func (e *exports) collect(days int) (rows []row) {
	for day := range days {
		for account := range 1000 {
			rows = append(rows, row{day: int32(day), account: int32(account), cents: int64(day * account), terms: [6]int64{int64(day)}})
		}
	}
	return rows
}

func (e *exports) handle(w http.ResponseWriter, r *http.Request) {
	days := 1
	if rand.Float64() < 0.03 {
		days = 150
	}
	var sum int64
	for _, x := range e.collect(days) {
		sum += x.cents - x.terms[0]
	}
	ls := lines(10)
	ls[0].Stock = int(sum % 100)
	reply(w, ls)
}
