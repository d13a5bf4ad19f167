package diagnose

// AddEndpoint is the Go that gives a program the endpoint from which traces are
// recorded.
const AddEndpoint = `import _ "net/http/pprof" and go http.ListenAndServe("localhost:6060", nil)`
