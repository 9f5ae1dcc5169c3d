"""The figures of the four papers that this project's algorithms are from, as data.

A figure is a list of requests and of who is timed at each; what its authors ran it on and found; and what of
the record is held against that. Of a contender's name:

    auto                      what `torch_topk.topk` does
    air, sort, ...            the best form of that algorithm, by the plan
    air.many_blocks, ...      that form, by the study operator `_form`
    TK_StSP, ...              the split-bucket paper's variants, by the study operator `_split_bucket`; with
                              " tile 4096" and the like those numbers are overridden
    per-thread, bucket, tree  per-thread top-k, bucket top-k and top-k by a search tree over several kernels,
                              baselines that the study build has; "per-thread registers" has lists in
                              registers instead of heaps
    topk_where filtered       a filter on another column; masked_fill + ...: the same by a copy of the input
    topk_where, ... + gather  several key columns, and columns that are gathered by the winners' indices
    kth_value                 the k-th element alone
    torch.topk, torch.sort, torch.kthvalue
"""

from __future__ import annotations

from bench.figure import (
    FULL_BUCKETS,
    NARROW,
    REAL,
    THIRTY_BITS,
    Duel,
    Figure,
    Method,
    Paper,
    Point,
    Ratio,
    cross,
    powers,
)

LIBRARY = ("torch.topk", "torch.sort")
OURS = ("air", "grid_select", "delegate", "bitonic", "sort", "split_bucket")


PAPERS = {
    "air": Paper(
        "J. Zhang, A. Naruse, X. Li and Y. Wang, *Parallel Top-K Algorithms on GPU: A Comprehensive Study "
        "and New Methods*, SC '23",
        "Of the paper's eight rivals torch.topk (a radix select) and torch.sort (CUB's radix sort) stand "
        "here, as the libraries that hold the others are not installed; the algorithms of the other papers "
        "run in their best form. Calls are replayed from CUDA graphs, so none is charged for the host "
        "between its kernels, as the paper's rivals are (its figure 8). The largest elements are selected, "
        "in any order; the adversarial input has the first 20 bits of all elements alike, as theirs.",
        "Figures 1 to 5 explain. Figure 8 and table 3 are profiles of single kernels of theirs.",
    ),
    "drtopk": Paper(
        "A. Gaihre and others, *Dr. Top-k: Delegate-Centric Top-k on GPUs*, SC '21",
        "delegate.from_maxima is the paper's method with AIR's passes as its selections; "
        "delegate.from_sample bounds the winners from a sample instead. The selections without delegates "
        "are this project's AIR and bitonic top-k (k up to 256), which read the row fewer times than the "
        "paper's. bucket is bucket top-k as the bitonic paper has it: 16 buckets at a time, of equal width "
        "between the least and the greatest; its buckets are of ordered keys, not of values, and a bucket is "
        "stored for the next pass where it holds a quarter of the row or less. int32 stands for unsigned "
        "integers, which torch.topk does not take.",
        "Figures 1 to 5, 8, 11 and 16 explain. Figure 12 is of a radix select that marks elements in place,"
        " which no kernel here does. Figure 22 turns delegate filtering off, which is not a switch here. "
        "Figure 23 compares two GPUs, figure 24 an algorithm on inverted lists; table 2 is of several GPUs "
        "([distributed.md](../../docs/distributed.md)), table 3 of hardware counters.",
    ),
    "bitonic": Paper(
        "A. Shanbhag, H. Pirk and S. Madden, *Efficient Top-K Query Processing on Massively Parallel "
        "Hardware*, SIGMOD '18",
        "air.many_blocks stands for radix select, whose passes it fuses; split_bucket.radix is a later "
        "paper's; torch.sort stands for sorting. bucket is bucket select, whose buckets are of ordered keys,"
        " not of values. All return indices beside the values, where the paper's return keys alone: so "
        "per-thread's heaps take twice the shared memory, of which there is more on a newer GPU. After "
        "them each block selects from its own heaps, and one block from what is left.",
        "Figures 1 to 7, 9 and 10 explain. Figure 8 varies the elements a thread, which are fixed here when"
        " the kernels are compiled, as its optimisations are. Figure 15 compares the GPU with a CPU. The "
        "other parts of figure 16 rank by an expression, filter by a language and count groups.",
    ),
    "split": Paper(
        "the split-bucket partition (SBP) model for top-K and selection on GPUs, 2024",
        "air.many_blocks stands for TK_RdP, a radix partition by several kernels. tree is TK_StP, the search "
        "tree over several kernels: sample select, with 256 buckets a level between elements of a sample of "
        "1024, as many levels as leave about 4096 elements or fewer, and one block that selects from those. "
        "Its splitters are told apart by index where values are equal, so that equals too are divided.",
        "Figures 2 to 5, 7 and 8 explain. Figures 1 and 6 split a kernel's time into its phases, which here"
        " lie fused in one.",
    ),
}

METHODS = (
    Method("air", "AIR Top-K", "`air`: `air.many_blocks`, and on chip `air.one_block`, `air.one_cluster`, "
           "`air.resident_row`, `air.resident_grid`", "csrc/cuda/air", "air"),
    Method("air", "GridSelect", "`grid_select`: `grid_select.registers`, `grid_select.shared_list`",
           "csrc/cuda/grid_select", "grid_select"),
    Method("drtopk", "Dr. Top-k", "`delegate`: `delegate.from_maxima` as in the paper, "
           "`delegate.from_sample`, `delegate.two_bounds`, `delegate.one_grid`, `delegate.grid_parts`, "
           "`delegate.one_cluster`, `delegate.resident_cluster`, `delegate.resident_grid`, "
           "`delegate.equal_shares`, `delegate.across_rows`", "csrc/cuda/delegate", "delegate"),
    Method("bitonic", "Bitonic Top-K", "`bitonic`: `bitonic.many_blocks` as in the paper, "
           "`bitonic.one_warp`, `bitonic.one_thread`", "csrc/cuda/bitonic", "bitonic"),
    Method("split", "TK_RdSP, TK_StSP, TK_StSPTC", "`split_bucket`: `split_bucket.radix`, "
           "`split_bucket.tree`", "csrc/cuda/split_bucket", "split_bucket"),
    Method("split", "S_RdSP, S_StSP", "`torch_topk.kth_value`", "torch_topk/selection.py", "kth_value"),
)  # fmt: skip

# --- AIR and GridSelect ---------------------------------------------------------------------------

_AIR_INPUTS = ("uniform", "normal", "twelve_bit_random")
_AIR_CONTENDERS = ("auto", *OURS, *LIBRARY)
# Table 2, "AIR Top-K vs. SOTA".
_TABLE_2 = {
    (1, "uniform"): (1.62, 6.81),
    (1, "normal"): (1.53, 7.34),
    (1, "twelve_bit_random"): (1.44, 5.0),
    (100, "uniform"): (1.56, 27.43),
    (100, "normal"): (1.42, 31.91),
    (100, "twelve_bit_random"): (1.38, 26.71),
}

_AIR = (
    Figure(
        "air-6", "air", "Figure 6", "time over k, one row of 2^15, 2^20, 2^25 and 2^30 elements",
        "A100, CUDA 12.0",
        "Partition and sorting hardly depend on k while partial sorting slows down with it; GridSelect "
        "tends to be ahead of AIR below k = 256 by a little, and AIR is the fastest elsewhere.",
        contenders=_AIR_CONTENDERS,
        points=cross(_AIR_INPUTS, (1,), powers(15, 20, 25, 30), powers(3, 5, 7, 8, 9, 11, 15, 18, 20)),
        ratios=(Ratio("air", LIBRARY), Ratio("grid_select", LIBRARY), Ratio("auto", LIBRARY)),
        duels=(Duel("grid_select", "air", "more often than not below k = 256"),),
    ),
    Figure(
        "air-7", "air", "Figure 7", "time over N, k = 32, 256 and 32768, one row and 100",
        "A100, CUDA 12.0",
        "AIR and GridSelect are far ahead of the older methods everywhere, of which the partitioning ones "
        "suffer under the adversarial input.",
        "100 rows go up to 2^23 elements each.",
        _AIR_CONTENDERS,
        cross(_AIR_INPUTS, (1,), powers(*range(11, 29, 2)), powers(5, 8, 15))
        + cross(_AIR_INPUTS, (100,), powers(*range(11, 25, 2)), powers(5, 8, 15)),
        axis="cols",
        ratios=(Ratio("air", LIBRARY), Ratio("grid_select", LIBRARY), Ratio("auto", LIBRARY)),
        duels=(Duel("grid_select", "air", "in a few cases of small k"),),
    ),
    Figure(
        "air-table-2", "air", "Table 2", "how many times as fast AIR is as the best of the others",
        "A100, CUDA 12.0",
        "AIR is 1.44 to 7.34 times as fast as the best previous method on one row, and 1.38 to 31.91 times "
        "on 100.",
        "Over the points of figures 6 and 7. The best of the others is here the faster of torch.topk and "
        "torch.sort.",
        ratios=tuple(
            Ratio("air", LIBRARY, paper, where={"rows": rows, "input": name})
            for (rows, name), paper in _TABLE_2.items()
        ),
        of=("air-6", "air-7"),
    ),
    Figure(
        "air-9", "air", "Figure 9", "AIR with and without its adaptive strategy",
        "A100, CUDA 12.0",
        "Adapting whether candidates are stored makes AIR up to 4.62 times as fast where the first 10 bits "
        "agree, and up to 6.53 times where the first 20 do.",
        "One row, k = 2048.",
        ratios=(
            Ratio("on", ("off",), (None, 4.62), "10 bits", {"input": "ten_bit_prefix"}),
            Ratio("on", ("off",), (None, 6.53), "20 bits", {"input": "twelve_bit_random"}),
        ),
        axis="cols",
        study="adaptive",
    ),
    Figure(
        "air-10", "air", "Figure 10", "AIR with and without early stopping",
        "A100, CUDA 12.0",
        "Stopping once all candidates are winners gains up to 18.7 %.",
        "One row, k = 2048; besides uniform input, one whose winners have a digit to themselves, so that "
        "the first pass can be the last.",
        ratios=(
            Ratio("on", ("off",), (None, 1.187), "uniform", {"input": "uniform"}),
            Ratio("on", ("off",), where={"input": "winners_share_a_digit"}),
        ),
        axis="cols",
        study="early_stop",
    ),
    Figure(
        "air-11", "air", "Figure 11", "GridSelect with one queue a warp and with a queue a thread",
        "A100, CUDA 12.0",
        "The shared queue makes GridSelect up to 1.28 times as fast as queues of single threads.",
        "One row of normal numbers.",
        ratios=(Ratio("shared", ("a queue a thread",), (None, 1.28)),),
        axis="cols",
        study="queues",
    ),
    Figure(
        "air-12", "air", "Figure 12", "uniform input of 2^30 elements on three GPUs",
        "A100, H100 SXM and A10",
        "AIR is 5 times as fast as the best of the others on an A100 and an H100, 3 times on an A10; "
        "GridSelect is ahead of it up to k = 128 on A100 and H100, and up to k = 512 on the A10.",
        "The points of figure 6 at 2^30.",
        ratios=(Ratio("air", LIBRARY, (5, 5), "A100, H100"),),
        duels=(Duel("grid_select", "air", "up to k = 128 on A100 and H100"),),
        of=("air-6",),
        where={"input": "uniform", "cols": 2**30},
    ),
    Figure(
        "air-13", "air", "Figure 13", "distances of real vectors, k = 10 and 100, N = 2^11 to 2^19",
        "A100, CUDA 12.0; DEEP1B and SIFT",
        "The two are always ahead of the others, by more for larger N, as on synthetic input; GridSelect "
        "often wins at k = 10, AIR at k = 100.",
        "DEEP1B and SIFT are downloads of gigabytes. The vectors are patches of 8 x 8 pixels and 3 colours "
        "of scikit-learn's two photographs, 531,720 of 192 dimensions, shuffled; a row holds the squared "
        "distances of one of them to the first N, and the smallest are selected. One query, not 1000.",
        _AIR_CONTENDERS,
        cross((REAL,), (1,), powers(11, 13, 15, 17, 19), (10, 100), largest=False),
        axis="cols",
        ratios=(Ratio("air", LIBRARY), Ratio("grid_select", LIBRARY), Ratio("auto", LIBRARY)),
        duels=(Duel("grid_select", "air", "for many N at k = 10, for none or few at k = 100"),),
    ),
)  # fmt: skip

# --- Dr. Top-k ------------------------------------------------------------------------------------

_DR_CONTENDERS = (
    "auto", "delegate.from_maxima", "delegate.from_sample", "air.many_blocks", "bucket",
    "bitonic.many_blocks", *LIBRARY
)  # fmt: skip

_DR = (
    Figure(
        "drtopk-6", "drtopk", "Figures 6, 7, 10 and 15", "time by step over k",
        "V100S",
        "Building the delegates takes nearly all of the time for small k, at 84 % of the peak bandwidth; at"
        " k = 2^24 of 2^30 filtering, two delegates a subrange and strided reads bring it to 24.7 ms.",
        "One row of 2^28 floats; times of kernels by the profiler, each from the end of the one before.",
        study="steps",
    ),
    Figure(
        "drtopk-9", "drtopk", "Figure 9", "one and two delegates a subrange",
        "V100S",
        "Two delegates a subrange are best, up to 1.41 times as fast as one at k = 2^24 of 2^30.",
        "One row of 2^28 floats, with rule 4's subranges each.",
        ratios=(Ratio("beta 2", ("beta 1",), (None, 1.41), "at k = 2^24"),),
        study="beta",
    ),
    Figure(
        "drtopk-13", "drtopk", "Figures 13 and 14", "the subranges' size",
        "V100S",
        "The time is convex in alpha, and the size by rule 4 is near the best.",
        "One row of 2^28 floats.",
        study="alpha",
    ),
    Figure(
        "drtopk-17", "drtopk", "Figure 17", "time over N, k = 1024",
        "V100S, CUDA 10.1",
        "At 2^30 elements delegates take radix top-k from 41.3 to 6.4 ms, bucket top-k from 38.4 to 7.0 and"
        " bitonic top-k from 127 to 7.0, where sorting takes 243; the gain grows with N.",
        "k = 256 too, where bitonic top-k serves it.",
        _DR_CONTENDERS,
        cross(("uniform",), (1,), powers(26, 28, 30), (256, 1024), "int32"),
        axis="cols",
        ratios=(
            Ratio("delegate.from_maxima", ("air.many_blocks",), (41.3 / 6.4,) * 2, "over radix at 2^30",
                  {"cols": 2**30}),
            Ratio("delegate.from_sample", ("air.many_blocks",), (41.3 / 6.4,) * 2, "over radix at 2^30",
                  {"cols": 2**30}),
            Ratio("delegate.from_maxima", ("bucket",), (38.4 / 7.0,) * 2, "over bucket at 2^30",
                  {"cols": 2**30}),
            Ratio("delegate.from_maxima", ("bitonic.many_blocks",), (127 / 7.0,) * 2, "over bitonic at 2^30",
                  {"cols": 2**30}),
            Ratio("delegate.from_maxima", ("torch.sort",), (243.2 / 6.4,) * 2, "over sorting at 2^30",
                  {"cols": 2**30}),
        ),
    ),
    Figure(
        "drtopk-18", "drtopk", "Figure 18", "what delegates gain over k, N = 2^30",
        "V100S, CUDA 10.1",
        "Delegates make radix top-k 1.7 to 6.6 times as fast on uniform, 1.7 to 10 on normal and 1.1 to "
        "10.1 on customised input, the less the larger k is; bucket top-k 1.1 to 6.2, 6.1 and 118.6 times, "
        "the least at k = 1, whose winner it finds with the range; bitonic top-k 1.1 to 473 times.",
        "Normal input is theirs (mean 10^8, deviation 10: some hundred values in all). The customised one, "
        "full_buckets, is by their description, against bucket top-k: seven times over all but 15 elements "
        "are in the last of 16 buckets, and each other bucket has one. twelve_bit_random, with 20 bits alike "
        "for all elements, is against radix top-k.",
        _DR_CONTENDERS,
        cross(("uniform", NARROW, FULL_BUCKETS, "twelve_bit_random"), (1,), (2**30,),
              powers(0, 3, 5, 8, 11, 15, 20, 22, 24), "int32"),
        ratios=(
            Ratio("delegate.from_maxima", ("air.many_blocks",), (1.7, 6.6), "uniform", {"input": "uniform"}),
            Ratio("delegate.from_maxima", ("air.many_blocks",), (1.7, 10), "normal", {"input": NARROW}),
            Ratio("delegate.from_maxima", ("air.many_blocks",), (1.1, 10.1), "customised",
                  {"input": FULL_BUCKETS}),
            Ratio("delegate.from_maxima", ("air.many_blocks",), where={"input": "twelve_bit_random"}),
            Ratio("delegate.from_sample", ("air.many_blocks",)),
            Ratio("delegate.from_maxima", ("bucket",), (1.1, 6.2), "uniform", {"input": "uniform"}),
            Ratio("delegate.from_maxima", ("bucket",), (1.1, 6.1), "normal", {"input": NARROW}),
            Ratio("delegate.from_maxima", ("bucket",), (1.1, 118.6), "customised", {"input": FULL_BUCKETS}),
            Ratio("delegate.from_maxima", ("bitonic.many_blocks",), (1.1, 473), "k up to 2^24"),
        ),
        duels=(Duel("delegate.from_maxima", "air.many_blocks", "always"),),
    ),
    Figure(
        "drtopk-19", "drtopk", "Figure 19", "what delegates gain on real data",
        "V100S, CUDA 10.1; ANN_SIFT1B, ClueWeb09, TwitterCOVID-19",
        "On distances of SIFT vectors (2^29) delegates make radix, bucket and bitonic top-k 4.2, 3.3 and "
        "127.1 times as fast on average, on the two others of 2^30 more.",
        "The row is of the same patches as in figure 13 of AIR's paper: the squared distances of as many "
        "queries to all of them as fill 2^28 elements, none twice.",
        _DR_CONTENDERS,
        cross((REAL,), (1,), (2**28,), powers(0, 5, 8, 11, 15, 20), largest=False),
        ratios=(
            Ratio("delegate.from_maxima", ("air.many_blocks",), (4.2, 4.2), "mean over radix top-k"),
            Ratio("delegate.from_sample", ("air.many_blocks",)),
            Ratio("delegate.from_maxima", ("bucket",), (3.3, 3.3), "mean over bucket top-k"),
            Ratio("delegate.from_maxima", ("bitonic.many_blocks",), (127.1, 127.1), "mean, k up to 2^24"),
        ),
    ),
    Figure(
        "drtopk-20", "drtopk", "Figures 20 and 21", "how many elements the two selections work on",
        "any: counted",
        "Delegates and candidates together are 0.83 % of 2^30 elements at k = 2^19, and from 0.0015 % at "
        "small k to 15.91 % at k = 2^24.",
        "Counted by a model of from_maxima's rules, with this project's alpha and beta; over k the row has "
        "2^28 elements.",
        study="workload",
    ),
)  # fmt: skip

# --- bitonic top-k --------------------------------------------------------------------------------

_BITONIC_CONTENDERS = (
    "auto", "bitonic.many_blocks", "air.many_blocks", "bucket", "split_bucket.radix", "per-thread", *LIBRARY
)  # fmt: skip
_BITONIC_KS = powers(3, 4, 5, 6, 7, 8, 10)

_BITONIC = (
    Figure(
        "bitonic-11", "bitonic", "Figure 11", "time over k: 2^29 floats, 2^29 integers, 2^28 doubles",
        "GTX Titan X (Maxwell), CUDA 8.0",
        "Bitonic top-k beats the others up to k = 256 and radix select beyond, whatever the dtype; "
        "per-thread top-k rises steeply from k = 32 on and ends at k = 256, for doubles at 128; bucket select"
        " is slower than radix select.",
        contenders=_BITONIC_CONTENDERS,
        points=cross(("uniform",), (1,), (2**29,), _BITONIC_KS)
        + cross(("uniform",), (1,), (2**29,), _BITONIC_KS, "int32")
        + cross(("uniform",), (1,), (2**28,), _BITONIC_KS, "float64"),
        ratios=(
            Ratio("bitonic.many_blocks", ("air.many_blocks",)),
            Ratio("bitonic.many_blocks", ("bucket",)),
            Ratio("bitonic.many_blocks", ("per-thread",)),
            Ratio("bitonic.many_blocks", ("torch.sort",)),
        ),
        duels=(
            Duel("bitonic.many_blocks", "air.many_blocks", "up to k = 256"),
            Duel("bitonic.many_blocks", "bucket", "up to k = 256"),
            Duel("bitonic.many_blocks", "per-thread", "always"),
        ),
    ),
    Figure(
        "bitonic-12", "bitonic", "Figure 12", "increasing and bucket-killer input, 2^29 floats",
        "GTX Titan X (Maxwell), CUDA 8.0",
        "Bitonic top-k and sorting do not depend on the input; per-thread top-k is up to 3 times as slow on"
        " increasing input, radix select as slow as sorting on the bucket killer, and bucket select takes "
        "twice as long there.",
        differs="Uniform input, from figure 11, stands beside the two.",
        contenders=_BITONIC_CONTENDERS,
        points=cross(("increasing", "ones_with_four_outliers"), (1,), (2**29,), powers(3, 5, 8)),
        of=("bitonic-11", "bitonic-12"),
        where={"dtype": "float32"},
        ratios=(
            Ratio("bitonic.many_blocks", ("air.many_blocks",), where={"input": "increasing"}),
            Ratio("bitonic.many_blocks", ("air.many_blocks",), where={"input": "ones_with_four_outliers"}),
            Ratio("bitonic.many_blocks", ("per-thread",), where={"input": "increasing"}),
            Ratio("bitonic.many_blocks", ("bucket",), where={"input": "ones_with_four_outliers"}),
            Ratio("air.many_blocks", ("torch.sort",), (1, 1), "bucket killer",
                  {"input": "ones_with_four_outliers"}),
        ),
        duels=(Duel("bitonic.many_blocks", "air.many_blocks", "up to k = 256"),),
    ),
    Figure(
        "bitonic-13", "bitonic", "Figure 13", "time over N, k = 64",
        "GTX Titan X (Maxwell), CUDA 8.0",
        "Bitonic top-k and sorting grow in proportion to N; the selections flatten out below 2^24, where "
        "their prefix sums cost a constant.",
        contenders=_BITONIC_CONTENDERS,
        points=cross(("uniform",), (1,), powers(*range(21, 30)), (64,)),
        axis="cols",
        ratios=(
            Ratio("bitonic.many_blocks", ("air.many_blocks",)),
            Ratio("bitonic.many_blocks", ("bucket",)),
            Ratio("bitonic.many_blocks", ("per-thread",)),
            Ratio("bitonic.many_blocks", LIBRARY),
        ),
    ),
    Figure(
        "bitonic-14", "bitonic", "Figure 14", "one to three keys, and columns beside the key, 2^28 rows",
        "GTX Titan X (Maxwell), CUDA 8.0",
        "Time grows in proportion to the bytes of the keys, and where radix select overtakes stays the "
        "same; wide payloads are better fetched at the end, by their ids, at next to no cost.",
        "Keys are compared one after the other by topk_where, the next only among equals; \"+ gather\" "
        "selects by the first column and fetches the others of the winners. x floor is against one read of "
        "one column.",
        ("topk_where", "auto + gather", "bitonic.many_blocks + gather", "torch.topk + gather"),
        cross(("uniform",), (1,), (2**28,), (32, 256), columns=(1, 2, 3)),
        axis="columns",
        ratios=(
            Ratio("auto + gather", ("torch.topk + gather",)),
            Ratio("auto + gather", ("bitonic.many_blocks + gather",)),
            Ratio("topk_where", ("torch.topk + gather",)),
        ),
    ),
    Figure(
        "bitonic-16", "bitonic", "Figure 16a", "the best 50 of the rows that pass a filter, 2^28 rows",
        "GTX Titan X (Maxwell), inside MapD; 250 million tweets",
        "Filtering inside the kernel saves writing and reading what passes: 30 % of the GPU's time where "
        "all rows pass, against filtering first and bitonic top-k then.",
        "Counts of retweets are drawn from a Zipf distribution, times uniformly; \"masked_fill\" is what "
        "callers of PyTorch write, the time's comparison, a copy without the others, and top-k of that.",
        ("topk_where filtered", "masked_fill + auto", "masked_fill + bitonic.many_blocks",
         "masked_fill + torch.topk"),
        tuple(Point("zipf", 1, 2**28, 50, "int32", columns=2, percent=p) for p in (20, 40, 60, 80, 100)),
        axis="percent",
        ratios=(
            Ratio("topk_where filtered", ("masked_fill + bitonic.many_blocks",), (1 / 0.7,) * 2, "",
                  {"percent": 100}),
            Ratio("topk_where filtered", ("masked_fill + torch.topk",)),
            Ratio("topk_where filtered", ("masked_fill + auto",)),
        ),
    ),
    Figure(
        "bitonic-17", "bitonic", "Figure 17", "the paper's cost model and measured times, 2^29 floats over k",
        "GTX Titan X (Maxwell): 251 GB/s global, 2.9 TB/s shared memory",
        "Both models rise and cross where the times do, and lie a little below them.",
        "The formulas of its section 7 with this GPU's bandwidths: of global memory by one read in the same"
        " run, of shared memory 128 bytes a clock of an SM. Bank conflicts count as one factor, so that k ="
        " 32 needs the paper's 17.5 passes over shared memory. Held against figure 11's floats.",
        of=("bitonic-11",),
        where={"dtype": "float32"},
    ),
    Figure(
        "bitonic-18", "bitonic", "Figure 18", "per-thread top-k over k: uniform, increasing, decreasing",
        "GTX Titan X (Maxwell), CUDA 8.0",
        "Lists in registers are slower than heaps in shared memory for larger k, as they spill from k = 64 "
        "on; increasing input, where every element is an insertion, widens the gap.",
        "",
        ("per-thread", "per-thread registers", "bitonic.many_blocks"),
        cross(("uniform", "increasing", "decreasing"), (1,), (2**29,), powers(3, 5, 7)),
        ratios=(
            Ratio("per-thread", ("per-thread registers",), where={"input": "uniform"}),
            Ratio("per-thread", ("per-thread registers",), where={"input": "increasing"}),
            Ratio("per-thread", ("per-thread registers",), where={"input": "decreasing"}),
            Ratio("bitonic.many_blocks", ("per-thread",), where={"input": "uniform"}),
            Ratio("bitonic.many_blocks", ("per-thread",), where={"input": "increasing"}),
            Ratio("bitonic.many_blocks", ("per-thread",), where={"input": "decreasing"}),
        ),
        duels=(Duel("per-thread", "per-thread registers", "for larger k"),),
    ),
)  # fmt: skip

# --- split-bucket ---------------------------------------------------------------------------------

_SPLIT_CONTENDERS = (
    "auto", "TK_RdSP", "TK_StSP", "TK_StSPT", "TK_StSPTC", "air.many_blocks", "tree", *LIBRARY
)  # fmt: skip
_RADIX = ("air.many_blocks",)
_TREE = ("tree",)
# Overrides of the plan's numbers, by what a contender's name ends in.
SPLIT_STUDIES = {
    **{f" tile {tile}": {"tile": tile} for tile in (4096, 8192, 16384)},
    **{f" cutoff {cutoff}": {"cutoff": cutoff} for cutoff in (128, 256, 512, 1024)},
}
_SELECTION_CONTENDERS = ("kth_value", "torch.kthvalue", "torch.sort")

_SPLIT = (
    Figure(
        "split-9", "split", "Figures 9 and 10", "time over N, k = 8, uniform integers below 2^30",
        "TU102 and A100",
        "In one kernel, radix partition is 1.2 to 1.8 times as fast on the TU102 as in several and 2.0 to "
        "2.3 times on the A100; the search tree is 1.2 to 1.78 times as fast on the TU102, with both "
        "optimisations 1.4 to 2.3 times and on the A100 1.5 to 2.9 times; with them it is 1.14 to 1.96 times "
        "as fast as without.",
        contenders=_SPLIT_CONTENDERS,
        points=cross((THIRTY_BITS,), (1,), powers(*range(21, 30)), (8,), "int32"),
        axis="cols",
        ratios=(
            Ratio("TK_RdSP", _RADIX, (2.0, 2.3), "A100"),
            Ratio("TK_StSP", _TREE, (1.2, 1.78), "TU102"),
            Ratio("TK_StSPTC", _TREE, (1.4, 2.3), "TU102"),
            Ratio("TK_StSPTC", _TREE, (1.5, 2.9), "A100"),
            Ratio("TK_StSPTC", ("TK_StSP",), (1.14, 1.96), "TU102"),
            Ratio("TK_StSPTC", ("torch.sort",)),
        ),
        duels=(Duel("TK_StSPTC", "TK_RdSP"),),
    ),
    Figure(
        "split-11", "split", "Figures 11 to 14", "time over k, 2^28 uniform integers below 2^30",
        "TU102 and A100",
        "The radix variant hardly depends on k, up to its limit of 128: 1.1 to 1.25 times as fast as in "
        "several kernels on the TU102, 2.0 to 2.3 on the A100; the search tree is 1.48 to 1.99 times as fast "
        "on the A100, with both optimisations 1.42 to 2.72 and on the TU102 1.2 to 2.48 times; the "
        "control-flow optimisation pays for small k alone, below k = 16 on the A100 and 64 on the TU102.",
        "k goes up to 1024.",
        _SPLIT_CONTENDERS,
        cross((THIRTY_BITS,), (1,), (2**28,), powers(1, 2, 3, 4, 5, 6, 7, 10), "int32"),
        ratios=(
            Ratio("TK_RdSP", _RADIX, (2.0, 2.3), "A100"),
            Ratio("TK_StSP", _TREE, (1.48, 1.99), "A100"),
            Ratio("TK_StSPTC", _TREE, (1.2, 2.48), "TU102"),
            Ratio("TK_StSPTC", _TREE, (1.42, 2.72), "A100"),
            Ratio("TK_StSPTC", ("TK_StSP",)),
            Ratio("TK_StSPTC", ("torch.sort",)),
        ),
        duels=(Duel("TK_StSPTC", "TK_StSP", "below k = 16 on an A100"), Duel("TK_StSPTC", "TK_RdSP")),
    ),
    Figure(
        "split-tile", "split", "Section 3.2.3", "a tile's size and how much it hands on",
        "TU102 or A100",
        "With tiles of 1024 elements it is best that each hands on 128.",
        "Tiles lie in registers here, 4096 to 16384 elements of 4 bytes; TK_RdSP and TK_StSPTC without "
        "numbers are the plan's choice.",
        tuple(
            rule + suffix
            for rule in ("TK_RdSP", "TK_StSPTC")
            for suffix in ("", *SPLIT_STUDIES)
        ),
        cross((THIRTY_BITS,), (1,), powers(22, 28), powers(3, 6), "int32"),
        axis="cols",
        ratios=(
            Ratio("TK_RdSP", tuple("TK_RdSP" + suffix for suffix in SPLIT_STUDIES)),
            Ratio("TK_StSPTC", tuple("TK_StSPTC" + suffix for suffix in SPLIT_STUDIES)),
        ),
    ),
    Figure(
        "split-15", "split", "Figure 15", "time over N, k = 8, bucket killer",
        "not said: TU102 or A100",
        "Split buckets lose less to the bucket killer: radix 2.6 to 4.3 times as fast as in several "
        "kernels, the search tree 1.9 to 4.9 times.",
        contenders=_SPLIT_CONTENDERS,
        points=cross(("ones_with_four_outliers",), (1,), powers(*range(21, 30)), (8,)),
        axis="cols",
        ratios=(
            Ratio("TK_RdSP", _RADIX, (2.6, 4.3)),
            Ratio("TK_StSP", _TREE, (1.9, 4.9)),
            Ratio("TK_StSP", ("torch.sort",)),
        ),
    ),
    Figure(
        "split-16", "split", "Figure 16", "time over k on real data",
        "TU102; distances of ANN_SIFT1B",
        "On distances, which have many duplicates, radix split buckets are 1.03 to 1.3 times as fast as in "
        "several kernels, the search tree 1.4 to 1.86 times, and optimised 1.03 to 2.36.",
        "The row is that of figure 19 of Dr. Top-k's paper: 2^28 squared distances of patches, many of them"
        " equal.",
        _SPLIT_CONTENDERS,
        cross((REAL,), (1,), (2**28,), powers(1, 2, 3, 4, 5, 6, 7), largest=False),
        ratios=(
            Ratio("TK_RdSP", _RADIX, (1.03, 1.3)),
            Ratio("TK_StSP", _TREE, (1.4, 1.86)),
            Ratio("TK_StSPTC", _TREE, (1.03, 2.36)),
            Ratio("TK_StSPTC", ("TK_StSP",)),
        ),
    ),
    Figure(
        "split-17", "split", "Figures 17 and 18", "selection over N, uniform integers below 2^30",
        "TU102 and A100",
        "Selecting the k-th element alone, split buckets are 1.59 to 1.77 times as fast as several kernels "
        "by radix, and 1.14 to 2.3 times by a search tree.",
        "kth_value takes whichever form is cheapest; torch.kthvalue and the k-th of torch.sort are its "
        "rivals. The paper does not say which k; here the eighth smallest and the median.",
        _SELECTION_CONTENDERS,
        tuple(
            Point(THIRTY_BITS, 1, cols, k, "int32", largest=False)
            for cols in powers(17, 21, 23, 25, 27, 29)
            for k in (8, cols // 2)
        ),
        axis="cols",
        ratios=(Ratio("kth_value", ("torch.kthvalue",)), Ratio("kth_value", ("torch.sort",))),
    ),
    Figure(
        "split-19", "split", "Figure 19", "selection over N, bucket killer, and on real data",
        "TU102",
        "On the bucket killer selection by split buckets is 3.1 to 4.6 times as fast by radix and 4.56 to "
        "15.5 times by a search tree; on SIFT distances some 1.42 and 2.1 times.",
        "As in figures 17 and 18; the real data is that of figure 16, of 2^19 and 2^28 distances.",
        _SELECTION_CONTENDERS,
        tuple(
            Point("ones_with_four_outliers", 1, cols, k, largest=False)
            for cols in powers(17, 21, 25, 29)
            for k in (8, cols // 2)
        )
        + tuple(Point(REAL, 1, cols, k, largest=False) for cols in powers(19, 28) for k in (8, cols // 2)),
        axis="cols",
        ratios=(Ratio("kth_value", ("torch.kthvalue",)), Ratio("kth_value", ("torch.sort",))),
    ),
)  # fmt: skip

FIGURES = {figure.name: figure for figure in (*_AIR, *_DR, *_BITONIC, *_SPLIT)}
TIMED = tuple(name for name, figure in FIGURES.items() if figure.points)
