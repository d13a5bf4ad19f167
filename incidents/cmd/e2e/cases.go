package main

import "time"

// A trial is one program in one situation, and what is right to say about it.
type trial struct {
	name    string
	program string   // its binary
	peer    []string // arguments of the server that it calls
	rate    float64  // requests per second
	// lag is what the 99th percentile of the clients' own lateness does not exceed
	// unless something that was not planted keeps the machine busy.
	lag time.Duration

	verdict string
	// causes are right as the first finding, or as a member of a set of
	// look-alikes where nothing was found. also may stand beside them: on a
	// machine that all the processes share, the host's contention is real.
	causes, also []string
}

const (
	// replyTime is what the upstream server always takes when nothing is planted,
	// slowTime what it takes for slowShare of the requests: more of them than the
	// 1.5 % that make a tail, so that the whole tail is slow.
	replyTime = time.Millisecond
	slowTime  = 40 * time.Millisecond
	slowShare = "0.02"
	// rate keeps two CPUs that are shared by all the processes mostly idle.
	rate = 250
	// Measured on two CPUs: 0.2 to 0.7 ms with nothing planted and 2.4 to 4.3 ms
	// beside the goroutines that compute; 1.4 to 64 ms beside a compiler.
	calmLag, jobsLag = time.Millisecond, 8 * time.Millisecond
)

var trials = []trial{
	{
		name: "caddy-steady", program: "caddy", rate: rate, lag: calmLag,
		peer:    []string{"-reply", replyTime.String()},
		verdict: "healthy",
	},
	{
		name: "caddy-upstream", program: "caddy", rate: rate, lag: calmLag,
		peer:    []string{"-reply", replyTime.String(), "-slow", slowTime.String(), "-share", slowShare},
		verdict: "cause",
		causes:  []string{"slow-dependency"}, also: []string{"host-contention"},
	},
	{
		name: "caddy-jobs", program: "mirrored", rate: rate, lag: jobsLag,
		peer:    []string{"-reply", replyTime.String()},
		verdict: "cause",
		causes:  []string{"cpu-hog", "netpoll-starvation"}, also: []string{"host-contention"},
	},
}
