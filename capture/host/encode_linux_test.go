package host

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// fill sets every field of v to something, a part of them to zero.
func fill(v reflect.Value, r *rand.Rand) {
	if r.IntN(4) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{1, -1, r.Int64(), math.MaxInt64, math.MinInt64}[r.IntN(5)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	default:
		panic("fill has to learn " + v.Kind().String())
	}
}

func TestASampleIsWrittenAsPackageJSONWould(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var s Sample
		fill(reflect.ValueOf(&s).Elem(), r)
		want, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendSample(nil, &s); string(got) != string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}
