"""PyROOT, imported without warnings, and `open_url`, which opens a file over any protocol."""

import warnings

OPEN_URL = r"""
#include "TFile.h"
#if __has_include("TWebFile.h")
#include "TWebFile.h"
#endif

// TFile::Open finds the class for a URL through the plug-in manager. In the wheel of ROOT 6.40 the plug-in for http
// names a constructor that does not exist, although the class is there and works: `web` makes one directly.
TFile *open_url(const char *url, bool web)
{
#if __has_include("TWebFile.h")
   if (web) return new ROOT::Deprecated::TWebFile(url, "");
#endif
   return TFile::Open(url);
}
"""


def import_root():
    """PyROOT, or None if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import ROOT
        except ImportError:
            return None
    ROOT.gROOT.SetBatch(True)
    return ROOT


def declare(ROOT, namespace: str, code: str) -> None:
    """Compiles code that defines a namespace, unless this process has done so already."""
    if not hasattr(ROOT, namespace):
        ROOT.gInterpreter.Declare(code)


def root_with(code: str, url: str) -> tuple:
    """PyROOT with the plug-in for `url` and `code`, which may call `open_url`; and its `web`."""
    ROOT = import_root()
    ROOT.gErrorIgnoreLevel = ROOT.kError
    handler = ROOT.gROOT.GetPluginManager().FindHandler("TFile", url)
    web = bool(handler) and handler.GetClass() == "ROOT::Deprecated::TWebFile"
    if web:
        ROOT.gSystem.Load("libNet")
    elif handler:
        handler.LoadPlugin()
    ROOT.gInterpreter.Declare(OPEN_URL + code)
    return ROOT, web
