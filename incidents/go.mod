module github.com/whylate/whylate/incidents

go 1.25.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/whylate/whylate v0.0.0
	golang.org/x/exp v0.0.0-20260218203240-3dfff04db8fa
	golang.org/x/sys v0.32.0
)

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe // indirect
	golang.org/x/sys v0.32.0 // indirect
)

replace github.com/whylate/whylate => ../
