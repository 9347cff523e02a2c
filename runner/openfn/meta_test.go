package openfn

import "testing"

func TestJobsSeeWhereTheirRunComesFrom(t *testing.T) {
	long(t)
	newBench(t, Config{}).RequireMeta()
}
