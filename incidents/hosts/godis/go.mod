module github.com/whylate/whylate/incidents/hosts/godis

// The go line is godis's own: it decides the defaults of GODEBUG.
go 1.17

require github.com/hdt3213/godis v1.2.9

require (
	github.com/hdt3213/rdb v1.0.9 // indirect
	github.com/shopspring/decimal v1.2.0 // indirect
)
