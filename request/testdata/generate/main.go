// Command generate records the traces in its parent folder: servers of published
// libraries that the root module does not depend on, each with clients in a child
// process that send 150 requests: go run . DIR
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/trace"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type svc interface{}

func unaryHandler(srv any, ctx context.Context, dec func(any) error, ic grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.Int64Value)
	if err := dec(in); err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(1+in.Value%4) * time.Millisecond)
	return in, nil
}
func bidi(srv any, s grpc.ServerStream) error {
	for {
		in := new(wrapperspb.Int64Value)
		if err := s.RecvMsg(in); err != nil {
			return nil
		}
		time.Sleep(time.Duration(1+in.Value%4) * time.Millisecond)
		if err := s.SendMsg(in); err != nil {
			return err
		}
	}
}
func watch(srv any, s grpc.ServerStream) error {
	in := new(wrapperspb.Int64Value)
	if err := s.RecvMsg(in); err != nil {
		return err
	}
	for {
		if err := s.SendMsg(in); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var desc = grpc.ServiceDesc{ServiceName: "x.S", HandlerType: (*svc)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "U", Handler: unaryHandler}},
	Streams: []grpc.StreamDesc{{StreamName: "B", Handler: bidi, ServerStreams: true, ClientStreams: true}, {StreamName: "W", Handler: watch, ServerStreams: true}}}

func each(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Add(1)
		go func() { defer wg.Done(); f() }()
	}
	wg.Wait()
}

var mu sync.Mutex
var total time.Duration
var count int

func took(t time.Time) { mu.Lock(); total += time.Since(t); count++; mu.Unlock() }

func client(kind, addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	switch kind {
	case "grpc":
		client("bidi", addr)
		client("watch", addr)
	case "bidi", "watch":
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			panic(err)
		}
		if kind == "watch" {
			for range 3 {
				s, err := c.NewStream(ctx, &desc.Streams[1], "/x.S/W")
				if err != nil {
					panic(err)
				}
				s.SendMsg(wrapperspb.Int64(1))
				s.CloseSend()
				go func() {
					for {
						if s.RecvMsg(new(wrapperspb.Int64Value)) != nil {
							return
						}
					}
				}()
			}
		}
		each(3, func() {
			if kind == "bidi" {
				s, err := c.NewStream(ctx, &desc.Streams[0], "/x.S/B")
				if err != nil {
					panic(err)
				}
				for i := range 50 {
					t := time.Now()
					s.SendMsg(wrapperspb.Int64(int64(i)))
					if err := s.RecvMsg(new(wrapperspb.Int64Value)); err != nil {
						panic(err)
					}
					took(t)
					time.Sleep(time.Millisecond)
				}
				s.CloseSend()
				return
			}
			for i := range 50 {
				t := time.Now()
				if err := c.Invoke(ctx, "/x.S/U", wrapperspb.Int64(int64(i)), new(wrapperspb.Int64Value)); err != nil {
					panic(err)
				}
				took(t)
				time.Sleep(time.Millisecond)
			}
		})
	default:
		each(3, func() {
			c := &http.Client{Transport: &http.Transport{}}
			for range 50 {
				t := time.Now()
				r, err := c.Get("http://" + addr + "/a")
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
				took(t)
				time.Sleep(time.Millisecond)
			}
		})
	}
	cancel()
	mu.Lock()
	defer mu.Unlock()
	fmt.Println("client", kind, "count", count, "sum ms", float64(total)/1e6)
}

func fakeRedis() string {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					var n int
					fmt.Sscanf(line, "*%d", &n)
					cmd := ""
					for i := range n {
						r.ReadString('\n')
						a, _ := r.ReadString('\n')
						if i == 0 {
							cmd = strings.ToLower(strings.TrimSpace(a))
						}
					}
					if cmd == "get" {
						time.Sleep(2 * time.Millisecond)
						fmt.Fprint(c, "$2\r\nhi\r\n")
					} else {
						fmt.Fprint(c, "-ERR unknown\r\n")
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "client" {
		client(os.Args[2], os.Args[3])
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "redis-server" {
		fmt.Println(fakeRedis())
		select {}
	}
	for _, kind := range []string{"grpc", "fasthttp", "go-redis"} {
		l, _ := net.Listen("tcp", "127.0.0.1:0")
		var stop func()
		switch kind {
		case "fasthttp":
			s := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { time.Sleep(2 * time.Millisecond); c.WriteString("hi") }}
			go s.Serve(l)
			stop = func() { l.Close() }
		case "go-redis":
			cmd := exec.Command(os.Args[0], "redis-server")
			p, _ := cmd.StdoutPipe()
			cmd.Start()
			a, _ := bufio.NewReader(p).ReadString('\n')
			rc := redis.NewClient(&redis.Options{Addr: strings.TrimSpace(a)})
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				v, err := rc.Get(r.Context(), "x").Result()
				if err != nil {
					fmt.Println(err)
				}
				fmt.Fprint(w, v)
			})}
			go s.Serve(l)
			stop = func() { s.Close(); cmd.Process.Kill() }
		default:
			s := grpc.NewServer()
			s.RegisterService(&desc, 1)
			go s.Serve(l)
			stop = s.Stop
		}
		f, _ := os.Create(os.Args[1] + "/" + kind + ".trace")
		trace.Start(f)
		c := exec.Command(os.Args[0], "client", kind, l.Addr().String())
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		fmt.Print(kind, ": ")
		c.Run()
		trace.Stop()
		f.Close()
		stop()
	}
}
