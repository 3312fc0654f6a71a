package controller

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

func TestRequestsForMetricsAreLimited(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	handler := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	codes := make(chan int, 100)
	var requests sync.WaitGroup
	for range scrapeBurst + 5 {
		requests.Go(func() {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			request.RemoteAddr = "[fd00::1]:1"
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			codes <- answer.Code
		})
	}
	for range maxScrapes {
		<-entered
	}
	if len(entered) != 0 {
		t.Errorf("more than %d requests run at the same time", maxScrapes)
	}
	close(leave)
	requests.Wait()
	refused := 0
	for range scrapeBurst + 5 {
		if <-codes == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 || refused > 5 {
		t.Errorf("%d of %d requests at the same time are refused, want about 5", refused, scrapeBurst+5)
	}
}
