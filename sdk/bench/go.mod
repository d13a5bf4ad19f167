module github.com/whylate/whylate/sdk/bench

go 1.26.0

replace (
	github.com/whylate/whylate => ../../
	github.com/whylate/whylate/sdk => ../
)

require (
	github.com/KimMachineGun/automemlimit v1.0.1
	github.com/VictoriaMetrics/VictoriaMetrics v1.115.0
	github.com/bytedance/gopkg v0.1.4
	github.com/eapache/go-resiliency v1.7.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/go-kratos/aegis v0.2.0
	github.com/graph-gophers/dataloader/v7 v7.1.0
	github.com/sony/gobreaker/v2 v2.4.0
	github.com/valyala/fasthttp v1.60.0
	github.com/whylate/whylate v0.0.0-00010101000000-000000000000
	github.com/whylate/whylate/sdk v0.0.0
	github.com/zeromicro/go-zero v1.10.3
	google.golang.org/api v0.311.0
)

require (
	github.com/andybalholm/brotli v1.1.1 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fatih/color v1.18.0 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/klauspost/compress v1.18.6 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58 // indirect
	github.com/spaolacci/murmur3 v1.1.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/automaxprocs v1.6.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
