"""What several commands share: arguments, inputs, outputs, messages."""
