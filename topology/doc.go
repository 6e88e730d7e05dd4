// Package topology finds the operations that matter most to the training of an
// anytime network: step 1 of TIPS (Li et al., ICML 2023, Sections 3.1 to 3.3).
//
// # The model
//
// A supernet is a [Graph]: nodes are feature maps, edges are operations. An
// inverted residual block x→a→b→c with a skip has the edges (x,a), (a,b), (b,c)
// and (x,c); the sum is c. [Subnetworks] are drawn by keeping or leaving out every
// skippable block. Their adjacency matrices A_k, with loops at the input and the
// output, stand on the diagonal of the hyper-adjacency matrix Ĥ(λ), and λI
// everywhere else: the same feature map is coupled across subnetworks, because
// they learn from one loss. H̃ = (1−κ)Ĥ + κU makes every state reachable, and
// P, its rows scaled to sum to one, is a Markov chain with the stationary
// distribution π.
//
// The topological accumulated score of a feature map, [Analysis.TAS], is
// the probability of its states together: μ_r = Σ_k π(r_k). The topological path
// score (TPS) of a path is the sum over its nodes. Operations on the path with
// the highest score are the important ones; training samples them more.
//
// # Why no eigenproblem is solved
//
// The graph is undirected, so H̃ is symmetric and the chain reversible: π is
// proportional to the row sums of H̃. With N maps and T subnetworks
//
//	μ_r ∝ (1−κ)(s_r + λT(T−1)) + κNT²,   s_r = Σ_k deg_k(r) + T·loop(r)
//
// where s_r, the strength of r, is all that the subnetworks contribute. One pass
// over the edges gives it; the paper's 39 seconds become microseconds. The
// formula also shows that λ and κ move all scores of a network by the same
// affine map, so that they cannot change the order of paths with equally many
// nodes, nor of paths by mean score: what Figure 6 of the paper observes.
// Directed chains have no such form and take the sparse solver in [Chain.Solve].
package topology
