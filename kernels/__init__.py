"""The operations of the model, each as a torch truth and (where written) a Triton kernel."""
