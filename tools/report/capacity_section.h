// The arithmetic of a server's memory as part of a page: from the HBM of a
// device to pages and tokens, as `tidewheel plan` prints it.

#ifndef TIDEWHEEL_TOOLS_REPORT_CAPACITY_SECTION_H_
#define TIDEWHEEL_TOOLS_REPORT_CAPACITY_SECTION_H_

#include "tools/report/html_page.h"
#include "tools/serving_setup.h"

namespace tidewheel {

void AddCapacitySection(const ServingSetup& setup, HtmlPage& page);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_CAPACITY_SECTION_H_
