package export

import (
	"encoding/json"
	"io"

	"github.com/whylate/whylate/internal/version"
	"github.com/whylate/whylate/report/detail"
)

// speedscopeTo writes the file format of speedscope
// (https://www.speedscope.app/file-format-schema.json): three sampled profiles of leaves,
// and an evented one for each of the slowest requests.
func speedscopeTo(w io.Writer, r *detail.Recording) error {
	type frame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int    `json:"line,omitempty"`
	}
	type event struct {
		Type  string `json:"type"`
		Frame int    `json:"frame"`
		At    int64  `json:"at"`
	}
	type profile struct {
		Type       string  `json:"type"`
		Name       string  `json:"name"`
		Unit       string  `json:"unit"`
		StartValue int64   `json:"startValue"`
		EndValue   int64   `json:"endValue"`
		Samples    [][]int `json:"samples,omitempty"`
		Weights    []int64 `json:"weights,omitempty"`
		Events     []event `json:"events,omitempty"`
	}
	var file struct {
		Schema string `json:"$schema"`
		Shared struct {
			Frames []frame `json:"frames"`
		} `json:"shared"`
		Profiles           []profile `json:"profiles"`
		Name               string    `json:"name"`
		ActiveProfileIndex int       `json:"activeProfileIndex"`
		Exporter           string    `json:"exporter"`
	}
	file.Schema, file.Name, file.Exporter = "https://www.speedscope.app/file-format-schema.json", "why requests are late", "whylate "+version.String()
	for _, f := range r.Frames {
		file.Shared.Frames = append(file.Shared.Frames, frame{text(f.Function), text(f.File), f.Line})
	}
	slow := slowMeans(r)
	for _, x := range []struct {
		name string
		of   func(i int) float64
	}{
		{"why slow requests take longer than typical ones", func(i int) float64 { return r.Leaves[i].ExcessNS }},
		{"the mean slow request", func(i int) float64 { return slow[i] }},
		{"the mean typical request", func(i int) float64 { return r.Leaves[i].TypicalNS }},
	} {
		p := profile{Type: "sampled", Name: x.name, Unit: "nanoseconds", Samples: [][]int{}, Weights: []int64{}}
		for i := range r.Leaves {
			if ns := round(x.of(i)); ns > 0 { // the format has no negative weights
				p.Samples, p.Weights = append(p.Samples, r.Leaves[i].Stack), append(p.Weights, ns)
				p.EndValue += ns
			}
		}
		if len(p.Samples) > 0 {
			file.Profiles = append(file.Profiles, p)
		}
	}
	own := map[string]int{} // frames of steps
	name := func(s string) int {
		n, ok := own[s]
		if !ok {
			n = len(file.Shared.Frames)
			own[s] = n
			file.Shared.Frames = append(file.Shared.Frames, frame{Name: s})
		}
		return n
	}
	for i := range r.Paths {
		path := &r.Paths[i]
		q := &r.Requests[path.Request]
		p := profile{Type: "evented", Name: title(q), Unit: "nanoseconds", EndValue: q.DurationNS}
		walk(path.Steps, func(s *detail.Step, from, to int64) {
			p.Events = append(p.Events, event{"O", name(who(s) + ": " + doing(s)), from - q.StartNS})
		}, func(s *detail.Step, at int64) {
			p.Events = append(p.Events, event{"C", name(who(s) + ": " + doing(s)), at - q.StartNS})
		})
		if len(p.Events) > 0 {
			p.EndValue = max(p.EndValue, p.Events[len(p.Events)-1].At)
			file.Profiles = append(file.Profiles, p)
		}
	}
	return json.NewEncoder(w).Encode(&file)
}

// walk goes through steps in order of time, within each other: each begins when it does or
// when the one beside it has ended, and ends before the one around it. A request's parts
// may be carried by several goroutines, one after the other.
func walk(steps []detail.Step, begin func(s *detail.Step, from, to int64), end func(s *detail.Step, at int64)) {
	type open struct {
		s  *detail.Step
		to int64
	}
	var in []open
	var now int64
	if len(steps) > 0 {
		now = steps[0].FromNS
	}
	leave := func() {
		last := in[len(in)-1]
		in = in[:len(in)-1]
		now = max(now, last.to)
		end(last.s, now)
	}
	for i := range steps {
		s := &steps[i]
		for len(in) > 0 && in[len(in)-1].s.Depth >= s.Depth {
			leave()
		}
		from, to := max(now, s.FromNS), s.ToNS
		if len(in) > 0 {
			to = min(to, in[len(in)-1].to)
		}
		from = min(from, max(now, to))
		to = max(to, from)
		now = from
		begin(s, from, to)
		in = append(in, open{s, to})
	}
	for len(in) > 0 {
		leave()
	}
}
