// Package load is an open-loop HTTP load generator. It decides beforehand when
// each request should be sent and measures every latency from that intended
// time, so that a stalled server cannot hide its stall by slowing the generator
// down (coordinated omission). How late the generator itself was is reported
// separately as the send lag: a large lag says that the latencies are partly the
// generator's own.
//
// The client speaks HTTP/1.1 over keep-alive connections, one goroutine per
// outstanding request and no helper goroutines, because on a machine shared with
// the server the generator's own scheduling is part of what it measures.
package load
