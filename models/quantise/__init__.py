"""AWQ: a model's projections to 4 bits, by what its activations say matters (Lin et al., 2023; docs/decisions/0015).

    source      weights of a checkpoint by name, a layer at a time
    block       one layer on calibration rows: its output, and what each projection reads
    rounding    weights in groups of columns to 4 bits and back
    scales      how much of a projection's input scale moves into its weights
    clipping    how far each group's range is drawn in before rounding
    folding     factors into projections and out of what precedes them
    recipe      one layer from start to end
    format      tensors and configuration as AutoAWQ's "gemm" files hold them
    sides       the files beside the weights
    result      what stands in the finished folder
    work        finished layers on disk, taken up again after a stop
    unfinished  where that lies, and what was left there
    run         all of it: a folder in, a folder out

Runs on the CPU or a CUDA device, in float32, with one layer's weights and activations in memory. The same inputs give
the same bytes on the same device.
"""
