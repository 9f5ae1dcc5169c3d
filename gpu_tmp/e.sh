export PYTHONPATH=.
timeout 100 python -m pytest -q -n 10 tests/cuda/test_resident_grid.py tests/cuda/test_sort.py tests/cuda/test_resident_cluster.py > $OUT/t.txt 2>&1; tail -3 $OUT/t.txt
C=$1
timeout 130 python bench/sweep_plan.py --rows 1 8 --cols 2^17 2^22 --most-k 2^12 --seed 5 --seconds 90 --commit $C --without bitonic.many_blocks split_bucket.tree split_bucket.radix delegate.from_maxima grid_select.shared_list sort.whole_rows --output $OUT/plan-h200-5.jsonl > $OUT/s5.txt 2>&1; tail -1 $OUT/s5.txt
F="delegate.resident_grid delegate.resident_cluster delegate.one_cluster delegate.equal_shares sort.whole_rows"
for n in -3 -4 "" -2; do
  f=bench/results/plan-h200$n.jsonl; l=$(wc -l < $f); s=75; [ "$n" = -3 ] && s=25; [ "$n" = -4 ] && s=15
  timeout $((s+30)) python bench/sweep_plan.py --again $f --forms $F --seconds $s --commit $C > $OUT/a$n.txt 2>&1; tail -1 $OUT/a$n.txt
  tail -n +$((l+1)) $f > $OUT/new$n.jsonl
done
