package method

import "tips/supernet"

// full is the first lesson of almost every step: the whole network learns from
// the labels alone.
func full() Lesson { return Lesson{Label: 1} }

// liveFull is the whole network as a teacher, as lesson 0 has just run it.
func liveFull() []Teacher { return []Teacher{{Source: Live, Lesson: 0}} }

// lessons makes a step's lessons: the full network, then the others, which learn
// from it with the given weight on the labels.
func lessons(label float64, others ...supernet.Subnet) []Lesson {
	list := []Lesson{full()}
	for _, s := range others {
		list = append(list, Lesson{Subnet: s, Label: label, Soft: 1, Teachers: liveFull()})
	}
	return list
}

// labelWeight is the weight of the labels in a subnetwork's lesson, for methods
// whose own loss is distillation alone.
func labelWeight(l Loss) float64 {
	if l == Paper {
		return 1
	}
	return 0
}
