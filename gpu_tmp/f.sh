export PYTHONPATH=.
C=$1
mkdir -p $OUT/x
timeout 100 python -m pytest -q -n 10 tests/cuda/test_resident_grid.py > /tmp/t.txt 2>&1; tail -3 /tmp/t.txt; grep FAILED /tmp/t.txt | head -3
timeout 100 python bench/sweep_plan.py --rows 1 8 --cols 2^17 2^22 --most-k 2^12 --seed 5 --seconds 60 --commit $C --without bitonic.many_blocks split_bucket.tree split_bucket.radix delegate.from_maxima grid_select.shared_list sort.whole_rows --output $OUT/plan-h200-5.jsonl > /tmp/s5.txt 2>&1; tail -1 /tmp/s5.txt
F="delegate.two_bounds air.many_blocks delegate.from_sample"
for n in -3 -4 "" -2; do
  f=bench/results/plan-h200$n.jsonl; l=$(wc -l < $f); s=20; [ "$n" = -3 ] && s=8; [ "$n" = -4 ] && s=8
  timeout $((s+30)) python bench/sweep_plan.py --again $f --forms $F --least-k 8192 --seconds $s --commit $C > /tmp/a.txt 2>&1; tail -1 /tmp/a.txt
  tail -n +$((l+1)) $f > $OUT/newk$n.jsonl
done
