package secrets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"plain": "plain", "with its end\n": "with its end", "from elsewhere\r\n": "from elsewhere", " with spaces \n": " with spaces ",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		secret, open, err := Read(path)
		require.NoError(t, err)
		require.Equal(t, want, secret)
		require.False(t, open)
	}
	require.NoError(t, os.Chmod(path, 0o604))
	_, open, err := Read(path)
	require.NoError(t, err)
	require.True(t, open)
}

func TestWhatIsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"": " is empty", "\n": " is empty", "\r\n": " is empty",
		"hidden\nlines": " has several lines", "hidden\n\n": " has several lines",
		string(make([]byte, largest+1)): " is too large",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, _, err := Read(path)
		require.ErrorContains(t, err, path+want)
		require.NotContains(t, err.Error(), "hidden")
	}
	_, _, err := Read(filepath.Dir(path))
	require.ErrorContains(t, err, "the file cannot be read: ")
}
