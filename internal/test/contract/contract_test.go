package contract_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// scripts is how many scripts each driver runs in a plain test. The fuzz targets run more.
const scripts = 3000

var drivers = map[string]func(*testing.T, *decoder){
	"Execute": testExecute, "Call": testCall, "Next": testNext, "Pool": testPool, "Transport": testTransport,
	"Stored": testStored, "InTx": testInTx, "Run": testRun,
}

// Every driver does what the documents say. The scripts are the same in every run.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, test := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.NewChaCha8([32]byte{25})
			for i := range scripts {
				d := &decoder{make([]byte, 600)}
				_, _ = random.Read(d.bytes)
				t.Run(strconv.Itoa(i), func(t *testing.T) { test(t, d) })
			}
		})
	}
}

func FuzzExecute(f *testing.F) { fuzz(f, testExecute) }

func FuzzCall(f *testing.F) { fuzz(f, testCall) }

func FuzzNext(f *testing.F) { fuzz(f, testNext) }

func FuzzStored(f *testing.F) { fuzz(f, testStored) }

func FuzzPool(f *testing.F) { fuzz(f, testPool) }

func FuzzTransport(f *testing.F) { fuzz(f, testTransport) }

func fuzz(f *testing.F, test func(*testing.T, *decoder)) {
	f.Helper()
	random := rand.NewChaCha8([32]byte{1})
	for range 20 {
		bytes := make([]byte, 600)
		_, _ = random.Read(bytes)
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { test(t, &decoder{bytes}) })
}
