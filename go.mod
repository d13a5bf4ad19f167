module github.com/whylate/whylate

go 1.25.0

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	golang.org/x/exp v0.0.0-20260218203240-3dfff04db8fa
	golang.org/x/sys v0.32.0
	golang.org/x/term v0.30.0
)

require github.com/inconshreveable/mousetrap v1.1.0 // indirect
