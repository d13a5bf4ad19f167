package timeline_test
import ("testing";"os";"compress/gzip";"fmt";"github.com/whylate/whylate/timeline";"github.com/whylate/whylate/gotrace")
func TestDbg(t *testing.T){
 f,_:=os.Open("../gotrace/testdata/go1.26.trace.gz"); z,_:=gzip.NewReader(f)
 r,_:=gotrace.NewReader(z)
 var ev gotrace.Event
 var t0 gotrace.Time
 for i:=0;i<60;i++ { r.Next(&ev); if i==1{t0=ev.Time}; fmt.Println(ev.Kind,ev.Time-t0,"by g",ev.G,"p",ev.P,"| g",ev.Go,"p",ev.Proc,ev.From,"->",ev.To,ev.Reason,ev.Name)}
 _=timeline.NoG
}
