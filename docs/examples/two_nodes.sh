# On both nodes, once:
python3 -m venv ~/transfer && ~/transfer/bin/pip install 'hither[cluster]'

# On dtn1:
~/transfer/bin/dask scheduler --port 8786 &
~/transfer/bin/dask worker tcp://dtn1:8786 --name dtn1 --nthreads 4 --no-nanny &

# On dtn2:
~/transfer/bin/dask worker tcp://dtn1:8786 --name dtn2 --nthreads 4 --no-nanny &

# Anywhere:
~/transfer/bin/hither cp -r https://archive.example/run7 /shared/run7 --cluster tcp://dtn1:8786
