package engine

import (
	"context"
	"sync"

	"tips/nn"
)

// sessions hands out what runs need: at most so many at a time, the one used last
// first, because its memory is in the caches.
type sessions struct {
	threads int
	slots   chan struct{} // one in it for every session in use
	closed  chan struct{}

	mu    sync.Mutex
	idle  []*session
	trims int
}

type session struct {
	*nn.Session
	trims int // when it was made: older ones than the last trim are not kept
}

func newSessions(threads, most int) *sessions {
	return &sessions{threads: threads, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

// get waits for a session.
func (p *sessions) get(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.closed:
			return nil, ErrClosed
		}
	}
	select {
	case <-p.closed: // at the same time
		<-p.slots
		return nil, ErrClosed
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		s := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		return s, nil
	}
	return &session{nn.NewSession(p.threads), p.trims}, nil
}

// put gives a session back.
func (p *sessions) put(s *session) {
	p.mu.Lock()
	if s.trims == p.trims {
		p.idle = append(p.idle, s)
		s = nil
	}
	p.mu.Unlock()
	if s != nil {
		s.Close()
	}
	<-p.slots
}

// trim ends idle sessions now, and those in use when they are given back.
func (p *sessions) trim() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.trims++
	p.mu.Unlock()
	for _, s := range idle {
		s.Close()
	}
}

// close waits until no session is in use and ends all. It is called once.
func (p *sessions) close() {
	close(p.closed)
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	p.trim()
}
