"""Recording a training run, and the small model behind EL2N and its relatives."""
