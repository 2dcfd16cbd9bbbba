"""coffea's NanoEvents of a NanoAOD file on a server equal those of the local file."""

import pytest
from needs import python_package
from samples import coffea_samples
from serving import serving

import hither

python_package("coffea")
uproot = python_package("uproot")

import awkward as ak  # noqa: E402
from coffea.nanoevents import NanoAODSchema, NanoEventsFactory  # noqa: E402

import hither.uproot  # noqa: E402

FILE = "nano_dy.root"


@pytest.fixture
def installed():
    hither.uproot.install()
    yield
    hither.uproot.uninstall()


def dimuons(events):
    """A selection that uses behaviours, cross references and generator particles."""
    muons = events.Muon[events.Muon.pt > 3]
    pairs = muons[ak.num(muons) > 1]
    masses = (pairs[:, 0] + pairs[:, 1]).mass
    matched = events.Electron.matched_gen.pdgId
    return {
        "masses": masses.to_list(),
        "matched": matched.to_list(),
        "jets": (events.Jet.pt * events.Jet.eta).to_list(),
        "parents": events.GenPart.distinctParent.pdgId.to_list(),
        "met": events.MET.pt.to_list(),
    }


def opened(where, **options):
    source = {where: "Events"}
    return NanoEventsFactory.from_root(source, schemaclass=NanoAODSchema, uproot_options=options).events()


@pytest.mark.filterwarnings("ignore")
def test_nanoevents_of_a_remote_file_are_those_of_the_local_one(client):
    folder = coffea_samples()
    near = dimuons(opened(str(folder / FILE)))
    assert near["masses"]
    with serving("nginx", folder) as url:
        far = opened(f"{url}/{FILE}", handler=hither.uproot.Source, client=client)
        assert dimuons(far) == near


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("installed")
def test_nanoevents_use_the_installed_source_without_an_argument():
    folder = coffea_samples()
    with serving("nginx", folder) as url:
        with uproot.open(f"{url}/{FILE}") as file:
            assert isinstance(file.file.source, hither.uproot.Source)
        assert dimuons(opened(f"{url}/{FILE}")) == dimuons(opened(str(folder / FILE)))
