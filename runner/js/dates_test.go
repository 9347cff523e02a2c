package js

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// Guards against texts that are another date than in Node, in a run that ends in success: QuickJS reads "30 Jan 24\n" as none,
// and "0024 Jul 15" as one of the year 24.
func TestDatesAreReadAsNodeReadsThem(t *testing.T) {
	runtest.Need(t, "node")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	texts := []string{
		"2024-1-5", "Jan 5 2024", "Jan 5", "5 january 24 10:30 PM", "2024-02-31", "2024-01-05T10:00", "2024-01-05 10:00+0530", "30 Jan 24\n", "0024 Jul 15", "1/2/3", "2024-06 CET", "(x) 1 (y) 2 2024",
		"2024-01-05T10:00:00.123456Z", "-000001-01-01", "-000000-01-01", "0050-01-01", "Thu, 01 Jan 1970 00:00:00 GMT+0200", "12:00", "",
	}
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		texts = append(texts, madeUpDate(dice))
	}
	input, err := json.Marshal(map[string]any{"data": texts})
	require.NoError(t, err)
	const read = `.map(t => [Date.parse(t), new Date(t).getTime(), JSON.stringify(new Date(t)), Number.isNaN(+new Date(t)) ? 0 : new Date(t).getFullYear()])`

	cmd := exec.CommandContext(t.Context(), "node", "-e", `console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8')).data`+read+`))`)
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(input)), os.Stderr
	said, err := cmd.Output()
	require.NoError(t, err)
	run := runtest.OneJob(`fn(s => ({ data: s.data` + read + ` }))`)
	run.Dataclip = input
	record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)

	var want [][4]any
	var got struct{ Data [][4]any }
	require.NoError(t, json.Unmarshal(said, &want))
	require.NoError(t, json.Unmarshal(record.FinalState, &got))
	dates := 0
	for i, text := range texts {
		if year, _ := want[i][3].(float64); !inUTC && year != 0 && year < 1900 {
			continue // of the time by the sun in a place, QuickJS knows the minutes
		}
		require.Equal(t, want[i], got.Data[i], "%q", text)
		if want[i][0] != nil {
			dates++
		}
	}
	require.Greater(t, dates, 300, "nothing is compared")
}

// madeUpDate returns a text that is nearly a date.
func madeUpDate(dice *rand.Rand) string {
	pick := func(choices string) string {
		all := strings.Split(choices, "|")
		return all[dice.IntN(len(all))]
	}
	year, month, day := "2024|1999|0024|24|70|0|+002024|12345|100", "1|2|05|12|13|0", "1|5|05|28|31|32|0|1st"
	name := "Jan|feb|MARCH|Sept|Oct.|mai|december"
	separator := pick("-|/|.| |, |–")
	var text strings.Builder
	if dice.IntN(5) == 0 {
		text.WriteString(pick("Mon |Tuesday, |xyz |(comment) | "))
	}
	for part := range strings.SplitSeq([]string{year + "," + month + "," + day, day + "," + name + "," + year, name + "," + day + "," + year, month + "," + day + "," + year, year + "," + month, name + "," + year}[dice.IntN(6)], ",") {
		text.WriteString(pick(part) + separator)
	}
	made := strings.TrimSuffix(text.String(), separator)
	if dice.IntN(2) == 0 {
		made += pick("T|T| | |, |t| at ") + pick("10|9|24|00|13") + pick(":|:|:|h|") + pick("30|05|5|60|00")
		made += pick("||:00|:7|:59.1|:59.123456|:00,5") + pick("|| am| PM|pm")
	}
	if dice.IntN(2) == 0 {
		made += pick("Z|z| Z|+01:00|+0530|-5| GMT| UTC+2|GMT-05:00 (Eastern)| EST| CET|+25:00|\n| )| foo")
	}
	return made
}

// Guards against a Date that is another function than before: what a job makes of it is made by Node's as well.
func TestDateIsTheLanguages(t *testing.T) {
	record := runtest.New(t, New(Config{})).Job(`class Day extends Date { next() { return new Day(+this + 864e5); } }
fn(() => ({ data: [
	Date.length, Date.name, new Date(0).constructor === Date, new Date(0) instanceof Date, Object.keys(Date).length, typeof Date(), new Date(2024, 0, 31, 1).getHours(), new Date(2020, 1).getMonth(),
	new Day('Jan 5 2024 UTC').next().toISOString(), new Day(0) instanceof Day, Date.UTC(2024, 1), new Date(new Date(5)).getTime(), new Date(['2024-01-05']).getTime(), Number.isNaN(Date.parse()), Math.abs(new Date() - Date.now()) < 1000,
] }));`)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"data":[7,"Date",true,true,0,"string",1,1,"2024-01-06T00:00:00.000Z",true,1706745600000,5,1704412800000,true,true]}`, string(record.FinalState))
}
