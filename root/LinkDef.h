#ifdef __CLING__
#pragma link off all globals;
#pragma link off all classes;
#pragma link off all functions;
#pragma link C++ class THitherFile;
#pragma link C++ class THitherSystem;
#pragma link C++ class ROOT::Internal::RRawFileHither;
#endif
